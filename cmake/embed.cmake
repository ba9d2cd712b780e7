# A file as bytes in the program: rf_embed(TARGET FILE NAME) compiles into TARGET a source of the
# build tree with
#     const uint8_t NAME[];  const size_t NAME_len;
# The same file is the script that writes it, so that nothing but CMake is needed.
if(CMAKE_SCRIPT_MODE_FILE)
    file(READ ${FILE} hex HEX)
    string(LENGTH "${hex}" n_digits)
    math(EXPR n_bytes "${n_digits} / 2")
    string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
    file(WRITE ${OUT} "#include <stddef.h>\n#include <stdint.h>\n\n"
        "extern const uint8_t ${NAME}[];\nextern const size_t ${NAME}_len;\n\n"
        "const uint8_t ${NAME}[] = {\n${hex}};\nconst size_t ${NAME}_len = ${n_bytes};\n")
    return()
endif()

set(RF_EMBED_SCRIPT ${CMAKE_CURRENT_LIST_FILE})
function(rf_embed target file name)
    set(in ${CMAKE_SOURCE_DIR}/${file})
    set(out ${CMAKE_BINARY_DIR}/embedded/${name}.c)
    add_custom_command(OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DFILE=${in} -DOUT=${out} -DNAME=${name} -P ${RF_EMBED_SCRIPT}
        DEPENDS ${in} ${RF_EMBED_SCRIPT} VERBATIM)
    target_sources(${target} PRIVATE ${out})
endfunction()
