# cmake -D program=PATH -D expected=FILE -P check.cmake: runs the program, and compares what it prints with the file.
execute_process(COMMAND ${program} OUTPUT_VARIABLE printed RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${program} failed (${status}):\n${printed}")
endif()
file(READ ${expected} wanted)
if(NOT printed STREQUAL wanted)
  message(FATAL_ERROR "${program} printed\n${printed}\nand not, as ${expected} says,\n${wanted}")
endif()
