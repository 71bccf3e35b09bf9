# Compile settings and the one function every source folder uses.

# ccache where it is installed; a launcher that was chosen by hand stays.
find_program(TRITIUM_CCACHE ccache)
mark_as_advanced(TRITIUM_CCACHE)
if(TRITIUM_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${TRITIUM_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${TRITIUM_CCACHE})
endif()

add_library(tritium_settings INTERFACE)
target_include_directories(tritium_settings INTERFACE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
# No contraction of a*b+c: results must not depend on which instruction set a file happens to be compiled for.
target_compile_options(tritium_settings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -ffp-contract=off)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(tritium_settings INTERFACE -Wno-restrict)  # false alarms in std::string of GCC 12
endif()
if(TRITIUM_WERROR)
  target_compile_options(tritium_settings INTERFACE -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Guesses of the optimiser about the standard library's inlined code, false alarms that differ from release to release: shown, not fatal.
    foreach(guess array-bounds stringop-overflow stringop-overread maybe-uninitialized free-nonheap-object)
      target_compile_options(tritium_settings INTERFACE -Wno-error=${guess})
    endforeach()
  endif()
endif()
if(TRITIUM_SANITIZE)
  target_link_options(tritium_settings INTERFACE -fsanitize=${TRITIUM_SANITIZE})
endif()
if(TRITIUM_FUZZ)
  target_compile_options(tritium_settings INTERFACE -fsanitize=fuzzer-no-link)
endif()

# tritium_sanitize(TARGET): the target's code is watched by the sanitizers of the build.
function(tritium_sanitize target)
  if(NOT TRITIUM_SANITIZE)
    return()
  endif()
  target_compile_options(${target} PRIVATE -fsanitize=${TRITIUM_SANITIZE} -fno-omit-frame-pointer)
  if(TRITIUM_SANITIZE MATCHES "undefined")
    # What vptr and null would find ends in AddressSanitizer's hands anyway.
    target_compile_options(${target} PRIVATE -fno-sanitize=vptr,null -fno-sanitize-recover=undefined)
  endif()
endfunction()

# tritium_compile_quickly(TARGET): for code that asks others to compute. -O1 takes a quarter less time to compile than -O3, and -O0 with
# sanitizers a third less than -O1.
function(tritium_compile_quickly target)
  if(TRITIUM_SANITIZE)
    target_compile_options(${target} PRIVATE -O0)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# tritium_library(NAME SOURCES ... [PUBLIC_LINKS ...] [PRIVATE_LINKS ...])
# One static library per folder, called tritium_NAME; links between folders follow the layers of docs/architecture.md.
function(tritium_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC_LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(tritium_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(tritium_${name} PUBLIC tritium_settings ${ARG_PUBLIC_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  tritium_sanitize(tritium_${name})
endfunction()
