/* python.exe: what the wheel of the DLL lacks. PYTHON_DLL names it, for instance L"python311.dll". */
#include <stdio.h>
#include <windows.h>

typedef int (*main_function)(int, wchar_t **);

int wmain(int argc, wchar_t **argv)
{
    HMODULE python = LoadLibraryW(PYTHON_DLL);
    main_function run = python ? (main_function)(void *)GetProcAddress(python, "Py_Main") : NULL;
    if (run == NULL) {
        fprintf(stderr, "Python's DLL cannot be loaded: error %lu\n", GetLastError());
        return 127;
    }
    return run(argc, argv);
}
