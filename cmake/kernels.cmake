# The GPU kernels: one source (src/backend/gpu/kernels/kernels.hip) compiled once per target and
# embedded in the library.  Debian's clang-22 with its own lld is all it takes: no ROCm, no CUDA SDK.
# Without it the build brings no GPU kernels, and the program says so.  With libzstd and its program the
# code is embedded compressed.  The source itself is always embedded, for compilers at run time.
#
# Exact AMD targets are code objects of version 5 (ROCm 5.7 and later load them); the generic ones of
# a family exist from version 6 (ROCm 6.3).  NVIDIA targets are PTX, which the driver translates, and where a ptxas is
# found that knows the target also what it makes of that.
include(cmake/cards.cmake) # the names of all targets, and those of this machine's cards
set(RF_GPU_PTX_sm_80 ptx74) # the oldest version of PTX that has what is used, for old drivers
set(RF_GPU_PTX_sm_90 ptx78)
set(RF_GPU_PTX_sm_90a ptx84)
set(RF_GPU_PTX_sm_120 ptx87)
set(RF_GPU_PTXAS_sm_80 11.4) # the oldest ptxas that reads it
set(RF_GPU_PTXAS_sm_90 11.8)
set(RF_GPU_PTXAS_sm_90a 12.4)
set(RF_GPU_PTXAS_sm_120 12.8)
set(RF_GPU_USUAL gfx1030 gfx1100 gfx1201 gfx90a gfx942 sm_80 sm_90 sm_90a)
set(RF_GPU_TARGETS auto CACHE STRING
    "GPU targets to build kernels for: a list, 'cards' (what the cards in this machine want), 'auto' (the same; without cards the usual ones), 'all', or empty for none")

find_program(RF_GPU_CLANG NAMES clang-24 clang-23 clang-22
    DOC "clang 22 or newer, which compiles the GPU kernels")
set(RF_GPU_ALL ${RF_GPU_ALL_AMD} ${RF_GPU_ALL_GENERIC} ${RF_GPU_ALL_NVIDIA})
set(RF_GPU_LIST ${RF_GPU_TARGETS})
if(RF_GPU_TARGETS STREQUAL "all")
    set(RF_GPU_LIST ${RF_GPU_ALL})
elseif(RF_GPU_TARGETS MATCHES "^(cards|auto)$")
    rf_cards_targets(RF_GPU_LIST)
    if(NOT RF_GPU_LIST AND RF_GPU_TARGETS STREQUAL "auto")
        set(RF_GPU_LIST ${RF_GPU_USUAL})
    endif()
endif()
foreach(target ${RF_GPU_LIST})
    if(NOT target IN_LIST RF_GPU_ALL)
        list(JOIN RF_GPU_ALL " " known)
        message(FATAL_ERROR "RF_GPU_TARGETS: '${target}' is none of cards, auto, all, ${known}")
    endif()
endforeach()
if(NOT RF_GPU_LIST AND RF_GPU_TARGETS)
    message(STATUS "GPU kernels: left out (no card with its driver here; './forge --gpu build' builds the usual ones)")
elseif(NOT RF_GPU_LIST)
    message(STATUS "GPU kernels: left out (RF_GPU_TARGETS is empty)")
elseif(NOT RF_GPU_CLANG)
    message(STATUS "GPU kernels: left out (no clang-22 to build ${RF_GPU_LIST}; './forge --gpu build' installs it)")
    set(RF_GPU_LIST "")
else()
    message(STATUS "GPU kernels: ${RF_GPU_LIST} by ${RF_GPU_CLANG}")
endif()
enable_language(ASM) # for .incbin

find_program(RF_GPU_PTXAS ptxas PATHS /usr/local/cuda/bin /opt/cuda/bin
    DOC "NVIDIA's assembler, which saves the driver the translation of PTX")
set(RF_GPU_PTXAS_VERSION 0)
if(RF_GPU_LIST MATCHES "sm_" AND RF_GPU_PTXAS)
    execute_process(COMMAND ${RF_GPU_PTXAS} --version OUTPUT_VARIABLE said ERROR_QUIET)
    if(said MATCHES "release ([0-9.]+)")
        set(RF_GPU_PTXAS_VERSION ${CMAKE_MATCH_1})
    endif()
endif()
if(RF_GPU_PTXAS_VERSION)
    message(STATUS "GPU kernels: machine code for NVIDIA by ${RF_GPU_PTXAS} ${RF_GPU_PTXAS_VERSION}")
elseif(RF_GPU_LIST MATCHES "sm_")
    message(STATUS "GPU kernels: for NVIDIA as PTX only (no ptxas that says its version)")
endif()

set(RF_GPU_ZSTD_LEVEL 19 CACHE STRING
    "how well zstd compresses GPU kernels: 19 takes half a minute a target, 12 two seconds and a quarter more room")
set(RF_GPU_PACKED 0)
find_program(RF_ZSTD zstd DOC "the program of the zstd package, which compresses the GPU kernels")
pkg_check_modules(ZSTD IMPORTED_TARGET libzstd)
if(RF_GPU_LIST AND RF_ZSTD AND ZSTD_FOUND)
    set(RF_GPU_PACKED 1)
elseif(RF_GPU_LIST)
    message(STATUS "GPU kernels: not compressed (no libzstd with its headers, or no zstd)")
endif()

set(RF_GPU_DIR ${CMAKE_BINARY_DIR}/gpu)
file(MAKE_DIRECTORY ${RF_GPU_DIR})
set(RF_GPU_KERNELS ${CMAKE_SOURCE_DIR}/src/backend/gpu/kernels/kernels.hip)
set(RF_GPU_FLAGS -std=c++20 -O3 -ffp-contract=off -Wall -Wextra -Werror -I${CMAKE_SOURCE_DIR}/src)
option(RF_GPU_RACECHECK "GPU kernels that compute-sanitizer's racecheck can follow, somewhat slower" OFF)
if(RF_GPU_RACECHECK)
    list(APPEND RF_GPU_FLAGS -DRF_RACECHECK)
endif()

# The source and every file of ours that it includes, as "#include" names them.
function(rf_gpu_collect name)
    if(name IN_LIST RF_GPU_INCLUDED)
        return()
    endif()
    set(file ${CMAKE_SOURCE_DIR}/src/${name})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    list(APPEND RF_GPU_INCLUDED ${name})
    file(STRINGS ${file} lines REGEX "^#include \"")
    foreach(line ${lines})
        string(REGEX REPLACE ".*\"([^\"]+)\".*" "\\1" included ${line})
        rf_gpu_collect(${included})
    endforeach()
    set(RF_GPU_INCLUDED ${RF_GPU_INCLUDED} PARENT_SCOPE)
endfunction()
set(RF_GPU_INCLUDED "")
rf_gpu_collect(backend/gpu/kernels/kernels.hip)
list(TRANSFORM RF_GPU_INCLUDED PREPEND ${CMAKE_SOURCE_DIR}/src/ OUTPUT_VARIABLE RF_GPU_INPUTS)
set(RF_GPU_OBJECTS "")
set(RF_GPU_ASSEMBLY "    .section .note.GNU-stack,\"\",@progbits\n    .section .rodata\n")
set(RF_GPU_EXTERNS "")
set(RF_GPU_ROWS "")

# A built object of a target into the program, compressed where that can be done, and into the table of codes.
macro(rf_gpu_embed target object is_binary)
    string(MAKE_C_IDENTIFIER "rf_gpu_code_${target}_${is_binary}" symbol)
    set(embedded ${object})
    if(RF_GPU_PACKED)
        string(APPEND embedded .zst)
        add_custom_command(OUTPUT ${embedded}
            COMMAND ${RF_ZSTD} -q -f -${RF_GPU_ZSTD_LEVEL} --check ${object} -o ${embedded}
            DEPENDS ${object} VERBATIM)
    endif()
    list(APPEND RF_GPU_OBJECTS ${embedded})
    string(APPEND RF_GPU_ASSEMBLY
        "    .balign 4096\n    .globl ${symbol}\n    .hidden ${symbol}\n${symbol}:\n"
        "    .incbin \"${embedded}\"\n"
        "    .globl ${symbol}_end\n    .hidden ${symbol}_end\n${symbol}_end:\n    .byte 0\n")
    string(APPEND RF_GPU_EXTERNS
        "extern const unsigned char ${symbol}[], ${symbol}_end[];\n")
    string(APPEND RF_GPU_ROWS "    {\"${target}\", ${symbol}, ${symbol}_end, ${is_binary}},\n")
endmacro()

foreach(target ${RF_GPU_LIST})
    if(target MATCHES "^sm_")
        set(object ${RF_GPU_DIR}/${target}.ptx)
        set(flags -x cuda --cuda-device-only -nocudainc -nocudalib --cuda-gpu-arch=${target} -S
            --cuda-path=${RF_GPU_DIR} --cuda-feature=+${RF_GPU_PTX_${target}}) # of no SDK
    else()
        set(object ${RF_GPU_DIR}/${target}.hsaco)
        set(version 5)
        if(target MATCHES "generic$")
            set(version 6)
        endif()
        set(flags -x hip --offload-device-only --no-gpu-bundle-output --offload-arch=${target}
            -mcode-object-version=${version} -nogpuinc -nogpulib)
    endif()
    add_custom_command(OUTPUT ${object}
        COMMAND ${RF_GPU_CLANG} ${flags} ${RF_GPU_FLAGS} ${RF_GPU_KERNELS} -o ${object}
        DEPENDS ${RF_GPU_INPUTS}
        COMMENT "GPU kernels for ${target}" VERBATIM)
    set(makes_binary FALSE)
    if(target MATCHES "^sm_" AND NOT RF_GPU_PTXAS_VERSION VERSION_LESS RF_GPU_PTXAS_${target})
        set(makes_binary TRUE)
    endif()
    if(target STREQUAL sm_90 AND sm_90a IN_LIST RF_GPU_LIST AND
            NOT RF_GPU_PTXAS_VERSION VERSION_LESS RF_GPU_PTXAS_sm_90a)
        set(makes_binary FALSE) # all that it runs on take that of sm_90a
    endif()
    if(makes_binary)
        set(binary ${RF_GPU_DIR}/${target}.cubin)
        add_custom_command(OUTPUT ${binary}
            COMMAND ${RF_GPU_PTXAS} -arch=${target} ${object} -o ${binary} DEPENDS ${object}
            COMMENT "GPU kernels for ${target}, machine code" VERBATIM)
        rf_gpu_embed(${target} ${binary} true)
    endif()
    rf_gpu_embed(${target} ${object} false)
endforeach()

set(n_sources 0)
set(RF_GPU_TEXTS "")
foreach(name ${RF_GPU_INCLUDED} stdint.h stddef.h stdbool.h)
    set(file ${CMAKE_SOURCE_DIR}/src/${name})
    if(NOT EXISTS ${file})
        set(file ${CMAKE_SOURCE_DIR}/src/backend/gpu/kernels/freestanding/${name})
    endif()
    set(symbol rf_gpu_source_${n_sources})
    math(EXPR n_sources "${n_sources} + 1")
    list(APPEND RF_GPU_OBJECTS ${file})
    string(APPEND RF_GPU_ASSEMBLY "    .globl ${symbol}\n    .hidden ${symbol}\n${symbol}:\n"
        "    .incbin \"${file}\"\n    .byte 0\n")
    string(APPEND RF_GPU_EXTERNS "extern const char ${symbol}[];\n")
    string(APPEND RF_GPU_TEXTS "    {\"${name}\", ${symbol}},\n")
endforeach()

file(CONFIGURE OUTPUT ${RF_GPU_DIR}/codes.c CONTENT
"/* Made by cmake/kernels.cmake: the code objects of this build, and their source. */
#include \"backend/gpu/code.h\"
#include \"backend/gpu/compile.h\"
@RF_GPU_EXTERNS@extern const rf_gpu_code rf_gpu_codes[];
const rf_gpu_code rf_gpu_codes[] = {
@RF_GPU_ROWS@    {NULL, NULL, NULL, false},
};
extern const rf_gpu_source rf_gpu_sources[];
const rf_gpu_source rf_gpu_sources[] = {
@RF_GPU_TEXTS@    {NULL, NULL},
};
" @ONLY)
file(CONFIGURE OUTPUT ${RF_GPU_DIR}/codes.S CONTENT "${RF_GPU_ASSEMBLY}" @ONLY)
set_source_files_properties(${RF_GPU_DIR}/codes.S PROPERTIES OBJECT_DEPENDS "${RF_GPU_OBJECTS}")
set(RF_GPU_SOURCES ${RF_GPU_DIR}/codes.c ${RF_GPU_DIR}/codes.S)
