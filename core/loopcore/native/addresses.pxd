# inet_pton(3) for a literal IPv4 address, without a copy of the text. `socket.inet_pton` would make an unused bytes
# object of the address. The Python twin, `interpreted_addresses.py`, calls it all the same.

cdef extern from *:
    """
    #include <arpa/inet.h>
    #include <netinet/in.h>
    #include <string.h>
    #include <sys/socket.h>

    /* Whether `host` is a str with an IPv4 address in the one spelling that inet_pton(3) accepts. */
    static int
    loopcore_is_ipv4(PyObject *host)
    {
        struct in_addr found;
        const char *text;
        if (!PyUnicode_CheckExact(host) || !PyUnicode_IS_ASCII(host)) {
            return 0;
        }
        text = (const char *)PyUnicode_1BYTE_DATA(host);  /* ends with a zero byte */
        return strlen(text) == (size_t)PyUnicode_GET_LENGTH(host) && inet_pton(AF_INET, text, &found) == 1;
    }

    /* Whether `port` is an int from 0 to 65535. */
    static int
    loopcore_is_port(PyObject *port)
    {
        int overflow;
        long number;
        if (!PyLong_CheckExact(port)) {
            return 0;
        }
        number = PyLong_AsLongAndOverflow(port, &overflow);
        return !overflow && number >= 0 && number <= 0xFFFF;
    }
    """
    bint is_ipv4 "loopcore_is_ipv4" (object host) noexcept
    bint is_port "loopcore_is_port" (object port) noexcept
