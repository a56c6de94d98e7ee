/* Has the n-th call of one kind fail, in a process that was started with this library preloaded. Calls for files
 * outside of the folder given, and writes to the first three descriptors, are not counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { WRITE, FSYNC, RENAME, OPEN, MKDIR, READ, ALLOCATE, KINDS };

static atomic_long seen[KINDS];
static atomic_int armed;
static int failing_kind, failing_error;
static long failing_call;
static char folder[4096];

/* Begin to count; the call number `call` of `kind`, from 0 on, fails with `error`. */
void arm(int kind, long call, int error, const char *under) {
    for (int each = 0; each < KINDS; each++)
        seen[each] = 0;
    failing_kind = kind;
    failing_call = call;
    failing_error = error;
    strncpy(folder, under, sizeof folder - 1);
    armed = 1;
}

/* End that, and say how many calls of that kind there were. */
long disarm(void) {
    armed = 0;
    return seen[failing_kind];
}

static int fails(int kind) {
    if (!armed || kind != failing_kind || atomic_fetch_add(&seen[kind], 1) != failing_call)
        return 0;
    errno = failing_error;
    return 1;
}

static int is_under(const char *path) { return armed && strncmp(path, folder, strlen(folder)) == 0; }

#define NEXT(name) \
    static __typeof__(name) *next; \
    if (!next) \
        next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void *bytes, size_t count) {
    NEXT(write);
    return file > 2 && fails(WRITE) ? -1 : next(file, bytes, count);
}

ssize_t read(int file, void *bytes, size_t count) {
    NEXT(read);
    return file > 2 && fails(READ) ? -1 : next(file, bytes, count);
}

int fsync(int file) {
    NEXT(fsync);
    return fails(FSYNC) ? -1 : next(file);
}

int rename(const char *old, const char *new) {
    NEXT(rename);
    return is_under(new) && fails(RENAME) ? -1 : next(old, new);
}

int mkdir(const char *path, mode_t mode) {
    NEXT(mkdir);
    return is_under(path) && fails(MKDIR) ? -1 : next(path, mode);
}

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        NEXT(name); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        return is_under(path) && fails(OPEN) ? -1 : next(path, flags, mode); \
    }

OPENS(open)
OPENS(open64)

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);

void *malloc(size_t size) { return fails(ALLOCATE) ? NULL : __libc_malloc(size); }

void *calloc(size_t count, size_t size) { return fails(ALLOCATE) ? NULL : __libc_calloc(count, size); }

void *realloc(void *old, size_t size) { return fails(ALLOCATE) ? NULL : __libc_realloc(old, size); }
