# Writes files into a C++ source: cmake -DFOLDER=DIR -DHEADER=FILE.h -DSPACE=NAMESPACE -DOUTPUT=FILE.cpp -P EmbedFiles.cmake
# The source defines `std::span<const EmbeddedFile> NAMESPACE::embedded_files()`, which HEADER declares: every file of FOLDER, sorted by
# its path below it, with its SHA-256. Runs at build time, with nothing but CMake.
file(GLOB_RECURSE names RELATIVE ${FOLDER} ${FOLDER}/*)
list(SORT names)
set(arrays "")
set(entries "")
set(number 0)
foreach(name ${names})
  file(READ ${FOLDER}/${name} hex HEX)
  file(SHA256 ${FOLDER}/${name} sha256)
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "constexpr unsigned char file_${number}[] = {\n${bytes}0};\n")
  string(APPEND entries "    {\"${name}\", file_${number}, ${size}, \"${sha256}\"},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT}
"// Made by cmake/EmbedFiles.cmake.
#include \"${HEADER}\"

namespace ${SPACE} {
namespace {
${arrays}
constexpr EmbeddedFile files[] = {
${entries}};
}  // namespace

std::span<const EmbeddedFile> embedded_files() { return files; }

}  // namespace ${SPACE}
")
