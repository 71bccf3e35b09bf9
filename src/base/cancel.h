#pragma once

#include <tritium/cancel.h>
