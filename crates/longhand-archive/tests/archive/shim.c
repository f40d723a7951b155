/* Stands between a program and its disk, by LD_PRELOAD on Linux.
 *
 * All that happens to files below LONGHAND_SHIM_FOLDER is written to LONGHAND_SHIM_LOG, in order, so that the
 * state of the disk can be made anew as a power cut at any sync would leave it. Nothing is really synced.
 *
 * A program asks for a fault by removing a file with the name /longhand-fault/KIND/ERRNO/N: the Nth call of that
 * kind from then on fails, once. KIND is write, sync, read or lock. /longhand-count/KIND asks how often there was such
 * a call since the last fault was set: the answer is errno, 1000 and more, of the failing unlink.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *folder;
static size_t folder_length;
static int log_fd = -1;
static int is_ready;

enum { WRITE, SYNC, READ, LOCK, KINDS };
static const char *const kinds[KINDS] = {"write", "sync", "read", "lock"};
static struct { long calls, fails_at; int error; } faults[KINDS];

static void ready(void) {
    if (is_ready) return;
    is_ready = 1;
    folder = getenv("LONGHAND_SHIM_FOLDER");
    folder_length = folder ? strlen(folder) : 0;
    const char *log = getenv("LONGHAND_SHIM_LOG");
    if (log) log_fd = (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int is_ours(const char *path) {
    ready();
    return folder_length && strncmp(path, folder, folder_length) == 0;
}

/* The path of an open file, and its number on the disk; 0 if it is none of ours. */
static uint64_t file_of(int fd, char *path) {
    ready();
    if (!folder_length || fd == log_fd) return 0;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlink, link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    struct stat data;
    if (!is_ours(path) || fstat(fd, &data)) return 0;
    return data.st_ino;
}

/* A record: its kind, two numbers, and bytes with their length. */
static void record(char kind, uint64_t one, uint64_t two, const void *bytes, uint64_t length) {
    if (log_fd < 0) return;
    char head[25];
    head[0] = kind;
    memcpy(head + 1, &one, 8);
    memcpy(head + 9, &two, 8);
    memcpy(head + 17, &length, 8);
    syscall(SYS_write, log_fd, head, sizeof head);
    for (uint64_t done = 0; done < length;) {
        long wrote = syscall(SYS_write, log_fd, (const char *)bytes + done, length - done);
        if (wrote <= 0) _exit(99);
        done += (uint64_t)wrote;
    }
}

static int fails(int kind) {
    faults[kind].calls++;
    if (faults[kind].fails_at != faults[kind].calls) return 0;
    errno = faults[kind].error;
    return 1;
}

static ssize_t written(int fd, const void *bytes, size_t length, off_t at, int has_place) {
    char path[PATH_MAX];
    uint64_t file = file_of(fd, path);
    if (!file) {
        return has_place ? syscall(SYS_pwrite64, fd, bytes, length, at) : syscall(SYS_write, fd, bytes, length);
    }
    pthread_mutex_lock(&lock);
    ssize_t done = -1;
    const char *name = strrchr(path, '/');
    int is_ack = name && strncmp(name, "/acks", 5) == 0;
    if (is_ack || !fails(WRITE)) {
        if (!has_place) at = lseek(fd, 0, SEEK_CUR);
        done = has_place ? syscall(SYS_pwrite64, fd, bytes, length, at) : syscall(SYS_write, fd, bytes, length);
        if (done > 0) record(is_ack ? 'A' : 'W', file, (uint64_t)at, bytes, (uint64_t)done);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

ssize_t write(int fd, const void *bytes, size_t length) { return written(fd, bytes, length, 0, 0); }
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return written(fd, bytes, length, at, 1); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) { return written(fd, bytes, length, at, 1); }

static ssize_t read_at(int fd, void *bytes, size_t length, off_t at) {
    char path[PATH_MAX];
    if (folder_length && file_of(fd, path)) {
        pthread_mutex_lock(&lock);
        int is_fault = fails(READ);
        pthread_mutex_unlock(&lock);
        if (is_fault) return -1;
    }
    return syscall(SYS_pread64, fd, bytes, length, at);
}

ssize_t pread(int fd, void *bytes, size_t length, off_t at) { return read_at(fd, bytes, length, at); }
ssize_t pread64(int fd, void *bytes, size_t length, off_t at) { return read_at(fd, bytes, length, at); }

static int truncated(int fd, off_t length) {
    char path[PATH_MAX];
    uint64_t file = file_of(fd, path);
    if (!file) return (int)syscall(SYS_ftruncate, fd, length);
    pthread_mutex_lock(&lock);
    int done = -1;
    if (!fails(WRITE)) {
        done = (int)syscall(SYS_ftruncate, fd, length);
        if (!done) record('T', file, (uint64_t)length, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate(int fd, off_t length) { return truncated(fd, length); }
int ftruncate64(int fd, off_t length) { return truncated(fd, length); }

static int synced(int fd, long call) {
    char path[PATH_MAX];
    uint64_t file = file_of(fd, path);
    if (!file) return (int)syscall(call, fd);
    struct stat data;
    int is_folder = !fstat(fd, &data) && S_ISDIR(data.st_mode);
    pthread_mutex_lock(&lock);
    int done = fails(SYNC) ? -1 : 0;
    if (!done) record(is_folder ? 'D' : 'S', file, 0, path, strlen(path));
    pthread_mutex_unlock(&lock);
    return done;
}

int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

static int opened(const char *path, int flags, mode_t mode) {
    int is_new = (flags & O_CREAT) && is_ours(path) && syscall(SYS_faccessat, AT_FDCWD, path, F_OK) != 0;
    pthread_mutex_lock(&lock);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    struct stat data;
    if (fd >= 0 && is_new && !fstat(fd, &data)) record('C', data.st_ino, 0, path, strlen(path));
    if (fd >= 0 && !is_new && (flags & O_TRUNC) && is_ours(path) && !fstat(fd, &data)) record('T', data.st_ino, 0, NULL, 0);
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE(flags, mode) do { \
    if ((flags) & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); } \
} while (0)

int open(const char *path, int flags, ...) { mode_t mode = 0; MODE(flags, mode); return opened(path, flags, mode); }
int open64(const char *path, int flags, ...) { mode_t mode = 0; MODE(flags, mode); return opened(path, flags, mode); }

/* Two paths in one record, the first one ended by a zero. */
static void pair(char kind, uint64_t file, const char *one, const char *other) {
    char both[2 * PATH_MAX];
    int length = snprintf(both, sizeof both, "%s%c%s", one, 0, other);
    record(kind, file, 0, both, (uint64_t)length);
}

static int linked(const char *old, const char *new) {
    pthread_mutex_lock(&lock);
    int done = (int)syscall(SYS_linkat, AT_FDCWD, old, AT_FDCWD, new, 0);
    struct stat data;
    if (!done && is_ours(new) && !stat(new, &data)) record('C', data.st_ino, 1, new, strlen(new));
    pthread_mutex_unlock(&lock);
    return done;
}

int link(const char *old, const char *new) { return linked(old, new); }
int linkat(int from, const char *old, int to, const char *new, int flags) {
    if (from == AT_FDCWD && to == AT_FDCWD) return linked(old, new);
    return (int)syscall(SYS_linkat, from, old, to, new, flags);
}

int rename(const char *old, const char *new) {
    pthread_mutex_lock(&lock);
    int done = (int)syscall(SYS_renameat2, AT_FDCWD, old, AT_FDCWD, new, 0);
    if (!done && is_ours(new)) pair('R', 0, old, new);
    pthread_mutex_unlock(&lock);
    return done;
}

static int controlled(const char *path) {
    char kind[16];
    int error;
    long number;
    if (sscanf(path, "/longhand-fault/%15[a-z]/%d/%ld", kind, &error, &number) == 3) {
        for (int at = 0; at < KINDS; at++) {
            faults[at].calls = 0;
            faults[at].fails_at = strcmp(kinds[at], kind) ? 0 : number;
            faults[at].error = error;
        }
        return errno = ENOENT, -1;
    }
    if (sscanf(path, "/longhand-count/%15[a-z]", kind) == 1) {
        for (int at = 0; at < KINDS; at++) {
            if (!strcmp(kinds[at], kind)) errno = 1000 + (int)faults[at].calls;
        }
        return -1;
    }
    return 0;
}

int unlink(const char *path) {
    ready();
    if (!strncmp(path, "/longhand-", 10)) {
        pthread_mutex_lock(&lock);
        int done = controlled(path);
        int error = errno;
        pthread_mutex_unlock(&lock);
        errno = error;
        return done;
    }
    pthread_mutex_lock(&lock);
    int done = (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (!done && is_ours(path)) record('U', 0, 0, path, strlen(path));
    pthread_mutex_unlock(&lock);
    return done;
}

static int controlled_file(int fd, int command, void *argument) {
    char path[PATH_MAX];
    if ((command == F_SETLK || command == F_OFD_SETLK) && folder_length && file_of(fd, path)) {
        struct flock *wish = argument;
        pthread_mutex_lock(&lock);
        int is_fault = wish->l_type != F_UNLCK && fails(LOCK);
        pthread_mutex_unlock(&lock);
        if (is_fault) return -1;
    }
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return controlled_file(fd, command, argument);
}

int fcntl64(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return controlled_file(fd, command, argument);
}
