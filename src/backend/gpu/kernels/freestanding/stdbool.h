/* stdbool.h - for compilers at run time, which bring no headers: bool is C++'s own. */
#pragma once
