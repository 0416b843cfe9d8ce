/* Preloaded into every program of a node: its wall clock is this machine's plus an offset.

   Time namespaces move the monotonic clock and the time since boot, never the wall clock.  The
   offset is read from a mapped file at every call, so programs that run see it change too.  Times
   of files stay true, as those on a file server do. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#ifndef OFFSET_FILE
#define OFFSET_FILE "/var/lib/clock-offset"
#endif

static const volatile int64_t *offset_ns;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void map_offset(void)
{
    int file = open(OFFSET_FILE, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return;
    void *page = mmap(0, sizeof *offset_ns, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED)
        offset_ns = page;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!real_clock_gettime)
        real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real_clock_gettime(clock, now);
    if (failed || !offset_ns || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return failed;
    int64_t ns = now->tv_sec * 1000000000LL + now->tv_nsec + *offset_ns;
    now->tv_sec = ns / 1000000000LL;
    now->tv_nsec = ns % 1000000000LL;
    return 0;
}

int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec precise;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *stored)
{
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise))
        return -1;
    if (stored)
        *stored = precise.tv_sec;
    return precise.tv_sec;
}
