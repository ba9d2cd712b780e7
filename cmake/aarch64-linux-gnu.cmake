# Cross-build for 64-bit ARM on Debian or Ubuntu, tests run under qemu-user:
#     cmake --preset arm64 && cmake --build build/arm64 && ctest --test-dir build/arm64
# Needs gcc-aarch64-linux-gnu, qemu-user and the arm64 packages of the libraries.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;/;-cpu;max)
