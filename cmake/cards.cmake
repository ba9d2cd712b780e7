# Which GPU targets the cards in this machine want, as their kernel drivers tell it: AMD's under
# /sys/class/kfd, NVIDIA's through nvidia-smi, which is part of every driver.
#
# As a script, "cmake -DRF_CARDS_ROOT=DIR -P cmake/cards.cmake" prints them for the files of another root.
cmake_policy(VERSION 3.22)
set(RF_GPU_ALL_AMD gfx906 gfx908 gfx90a gfx942 gfx950 gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035
    gfx1036 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 gfx1200 gfx1201)
set(RF_GPU_ALL_GENERIC gfx9-generic gfx9-4-generic gfx10-1-generic gfx10-3-generic gfx11-generic
    gfx12-generic)
set(RF_GPU_ALL_NVIDIA sm_80 sm_90 sm_90a sm_120) # sm_90a: what only Hopper has

# The target of a gfx_target_version, 110001 for gfx1101 and 90010 for gfx90a; a card without kernels of
# its own takes those of its family.
function(rf_amd_target version result)
    math(EXPR major "${version} / 10000")
    math(EXPR minor "${version} / 100 % 100")
    math(EXPR stepping "${version} % 100" OUTPUT_FORMAT HEXADECIMAL)
    string(REPLACE 0x "" stepping ${stepping})
    set(target gfx${major}${minor}${stepping})
    set(${result} "" PARENT_SCOPE)
    if(target IN_LIST RF_GPU_ALL_AMD)
        set(${result} ${target} PARENT_SCOPE)
    elseif(target MATCHES "^gfx90.$")
        set(${result} gfx9-generic PARENT_SCOPE)
    elseif(target MATCHES "^gfx10([13]).$")
        set(${result} gfx10-${CMAKE_MATCH_1}-generic PARENT_SCOPE)
    elseif(target MATCHES "^gfx(11[05]|120).$")
        string(SUBSTRING ${CMAKE_MATCH_1} 0 2 family)
        set(${result} gfx${family}-generic PARENT_SCOPE)
    endif()
endfunction()

# The targets of a compute capability, "8.6"; Hopper's two, since old drivers cannot read the better one.
function(rf_nvidia_targets capability result)
    string(REPLACE . "" number ${capability})
    set(${result} "" PARENT_SCOPE)
    if(number EQUAL 90)
        set(${result} sm_90 sm_90a PARENT_SCOPE)
    elseif(NOT number LESS 120)
        set(${result} sm_120 PARENT_SCOPE)
    elseif(NOT number LESS 90)
        set(${result} sm_90 PARENT_SCOPE)
    elseif(NOT number LESS 80)
        set(${result} sm_80 PARENT_SCOPE)
    endif()
endfunction()

function(rf_cards_targets result)
    set(all "")
    file(GLOB nodes ${RF_CARDS_ROOT}/sys/class/kfd/kfd/topology/nodes/*/properties)
    foreach(node ${nodes}) # processors are nodes of version 0
        file(STRINGS ${node} line REGEX "^gfx_target_version [1-9]")
        if(line MATCHES "([0-9]+)$")
            rf_amd_target(${CMAKE_MATCH_1} targets)
            list(APPEND all ${targets})
        endif()
    endforeach()
    find_program(RF_NVIDIA_SMI nvidia-smi PATHS /usr/lib/wsl/lib DOC "which tells NVIDIA's cards")
    if(RF_NVIDIA_SMI)
        execute_process(COMMAND ${RF_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
            OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE code TIMEOUT 20)
        string(REGEX MATCHALL "[0-9]+\\.[0-9]" capabilities "${said}")
        if(NOT code EQUAL 0)
            set(capabilities "")
        endif()
        foreach(capability ${capabilities})
            rf_nvidia_targets(${capability} targets)
            list(APPEND all ${targets})
        endforeach()
    endif()
    list(REMOVE_DUPLICATES all)
    set(${result} "${all}" PARENT_SCOPE)
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
    rf_cards_targets(targets)
    execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${targets}")
endif()
