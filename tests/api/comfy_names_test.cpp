#include "server/comfy/names.h"

#include <gtest/gtest.h>

namespace tritium::server::comfy {
namespace {

TEST(ComfyNames, ClipNamesComeBack) {
  const std::string id = new_uuid();
  EXPECT_TRUE(is_uuid(id)) << id;
  EXPECT_NE(id, new_uuid());
  const std::string name = clip_file_name("My clip_00001_", id, 2);
  const auto parsed = parse_clip_file_name(name);
  ASSERT_TRUE(parsed) << name;
  EXPECT_EQ(parsed->prompt_id, id);
  EXPECT_EQ(parsed->number, 2u);
  for (const char* other :
       {"", "_.mp4", "clip_00001_.mp4", "a_0123456789abcdef0123456789abcdeX_00001_.mp4", "a_0123456789abcdef0123456789abcdef_0x001_.mp4"})
    EXPECT_FALSE(parse_clip_file_name(other)) << other;
}

TEST(ComfyNames, Uuids) {
  EXPECT_TRUE(is_uuid("123e4567-e89b-12d3-a456-426614174000"));
  for (const char* text :
       {"", "123E4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g"})
    EXPECT_FALSE(is_uuid(text)) << text;
}

TEST(ComfyNames, PrefixesWithMarks) {
  const auto name = output_name("clips/%year%-%month%/%width%x%height%", 864, 480, 1'700'000'000);
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->subfolder, "clips/2023-11");
  EXPECT_EQ(name->stem, "864x480");
  EXPECT_EQ(output_name("video/", 1, 1, 0)->stem, "ComfyUI");
  EXPECT_EQ(output_name("a//b/./c", 1, 1, 0)->subfolder, "a/b");
}

TEST(ComfyNames, MarksOfFolders) {
  EXPECT_EQ(split_mark("a.png [output]").name, "a.png");
  EXPECT_EQ(split_mark("a.png [output]").type, "output");
  EXPECT_EQ(split_mark("a.png").type, "");
  EXPECT_EQ(split_mark(" [temp]").name, " [temp]");
}

}  // namespace
}  // namespace tritium::server::comfy
