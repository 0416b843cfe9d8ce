/* NVML's own ABI with two GPUs behind it, so that the real Python binding is exercised.

   GPU 0 holds somebody's process (pid in FAKE_NVML_PID) of 18 GiB and has no ECC; GPU 1 is hot and
   slowed down by its hardware. FAKE_NVML_OLD leaves out the names that came with driver 535;
   FAKE_NVML_INIT makes nvmlInit fail with that code. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, FUNCTION_NOT_FOUND = 13 };
typedef struct { int index; } *device;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int gpu, memory; } utilization;
typedef struct {
    unsigned int pid;
    unsigned long long used;
    unsigned int gpu_instance, compute_instance;
} process;

static struct { int index; } gpus[2] = {{0}, {1}};
static const unsigned long long GIB = 1024ull * 1024 * 1024;

int nvmlInitWithFlags(unsigned int flags) {
    const char *code = getenv("FAKE_NVML_INIT");
    (void)flags;
    return code ? atoi(code) : OK;
}
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch" : "?"; }
int nvmlSystemGetDriverVersion(char *text, unsigned int size) {
    snprintf(text, size, "550.54.15");
    return OK;
}
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device *found) {
    *found = (device)&gpus[index];
    return OK;
}
int nvmlDeviceGetUUID(device gpu, char *text, unsigned int size) {
    snprintf(text, size, "GPU-0000000%d-aaaa-bbbb-cccc-dddddddddddd", gpu->index);
    return OK;
}
int nvmlDeviceGetName(device gpu, char *text, unsigned int size) {
    snprintf(text, size, gpu->index ? "NVIDIA H100 80GB HBM3" : "NVIDIA GeForce RTX 4090");
    return OK;
}
int nvmlDeviceGetMemoryInfo(device gpu, memory *found) {
    found->total = gpu->index ? 80 * GIB : 24 * GIB;
    found->used = gpu->index ? 1 * GIB : 18 * GIB;
    found->free = found->total - found->used;
    return OK;
}
int nvmlDeviceGetUtilizationRates(device gpu, utilization *found) {
    found->gpu = gpu->index ? 7 : 93;
    found->memory = 40;
    return OK;
}
int nvmlDeviceGetTemperature(device gpu, int sensor, unsigned int *celsius) {
    (void)sensor;
    *celsius = gpu->index ? 91 : 64;
    return OK;
}
int nvmlDeviceGetPowerUsage(device gpu, unsigned int *mw) {
    if (!gpu->index) return NOT_SUPPORTED;
    *mw = 312500;
    return OK;
}
int nvmlDeviceGetEnforcedPowerLimit(device gpu, unsigned int *mw) {
    *mw = gpu->index ? 700000 : 450000;
    return OK;
}
int nvmlDeviceGetClockInfo(device gpu, int kind, unsigned int *mhz) {
    *mhz = kind == 1 ? (gpu->index ? 345 : 2520) : 1;
    return OK;
}
int nvmlDeviceGetMaxClockInfo(device gpu, int kind, unsigned int *mhz) {
    *mhz = kind == 1 ? (gpu->index ? 1980 : 3105) : 1;
    return OK;
}
int nvmlDeviceGetFanSpeed(device gpu, unsigned int *percent) {
    if (gpu->index) return NOT_SUPPORTED;
    *percent = 55;
    return OK;
}
int nvmlDeviceGetTotalEccErrors(device gpu, int kind, int counter, unsigned long long *count) {
    if (!gpu->index) return NOT_SUPPORTED;
    *count = counter == 0 ? (kind == 0 ? 12 : 1) : 999;
    return OK;
}
static int reasons(device gpu, unsigned long long *bits) {
    *bits = gpu->index ? 0x08 | 0x40 : 0x00;
    return OK;
}
int nvmlDeviceGetCurrentClocksEventReasons(device gpu, unsigned long long *bits) {
    return getenv("FAKE_NVML_OLD") ? FUNCTION_NOT_FOUND : reasons(gpu, bits);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(device gpu, unsigned long long *bits) {
    return getenv("FAKE_NVML_OLD") ? reasons(gpu, bits) : FUNCTION_NOT_FOUND;
}
static int running(device gpu, unsigned int *count, process *found, unsigned long long used) {
    const char *pid = getenv("FAKE_NVML_PID");
    unsigned int have = pid && !gpu->index;
    if (*count < have) { *count = have; return INSUFFICIENT_SIZE; }
    *count = have;
    if (have) {
        memset(found, 0, sizeof *found);
        found->pid = (unsigned int)atoi(pid);
        found->used = used;
    }
    return OK;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device gpu, unsigned int *count, process *found) {
    return running(gpu, count, found, 18 * GIB);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(device gpu, unsigned int *count, process *found) {
    (void)gpu; (void)found;
    *count = 0;
    return OK;
}
