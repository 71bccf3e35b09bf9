// Nodes as /object_info describes them.
#pragma once

#include "server/comfy/graph.h"

namespace tritium::server::comfy {

using NameLists = std::map<std::string, std::vector<std::string>>;  // by InputSpec::list

Json object_info(const NodeSpec& node, const NameLists& lists);

}  // namespace tritium::server::comfy
