/* A disk that is full while a file says so, by LD_PRELOAD on Linux.
 *
 * While LONGHAND_FULL names a file that exists, nothing below LONGHAND_FULL_FOLDER can be written or made longer.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_full(int fd) {
    const char *sign = getenv("LONGHAND_FULL"), *folder = getenv("LONGHAND_FULL_FOLDER");
    if (!sign || !folder || syscall(SYS_faccessat, AT_FDCWD, sign, F_OK)) return 0;
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    if (strncmp(path, folder, strlen(folder))) return 0;
    errno = ENOSPC;
    return 1;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    return is_full(fd) ? -1 : syscall(SYS_write, fd, bytes, length);
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    return is_full(fd) ? -1 : syscall(SYS_pwrite64, fd, bytes, length, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) { return pwrite(fd, bytes, length, at); }
