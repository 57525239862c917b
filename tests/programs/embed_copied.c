/* SPDX-License-Identifier: Apache-2.0 */
/* A program whose types are copies: without -fPIE the linker gives it PyType_Type and others of its own, and libpython
 * uses those (R_X86_64_COPY). Prints READY and stands still. */
#include <Python.h>

#include <unistd.h>

int main(void)
{
	Py_InitializeEx(0);
	if (PyRun_SimpleString("class Plain(object): pass\nkeep = [Plain() for i in range(1000)]\n"))
		return 1;
	if (Py_TYPE((PyObject *)&PyType_Type) != &PyType_Type || Py_TYPE((PyObject *)&PyDict_Type) != &PyType_Type)
		return 2;
	if (write(1, "READY\n", 6) != 6)
		return 1;
	pause();
	return 0;
}
