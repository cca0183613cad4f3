/* Loaded before the C library's: a machine whose clock is ten minutes ahead. */
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *at) {
    int answer = syscall(SYS_clock_gettime, id, at);
    if (answer == 0 && id == CLOCK_REALTIME)
        at->tv_sec += 600;
    return answer;
}
