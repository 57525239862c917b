/* SPDX-License-Identifier: Apache-2.0 */
#include "source/stop.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hashmap.h"
#include "source/procfs.h"

#define PATIENCE_MS 500 /* for a thread that doesn't react */

struct held_thread {
	pid_t tid;
	bool stopped, ended;
	int signal; /* that it was about to take when it was stopped, and takes when let go; or 0 */
};

struct stop {
	pid_t pid;
	struct source *source;
	pthread_t tracer;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool ready, release;
	struct fh_error *error;
	VEC(struct held_thread) held;
	struct hashmap known; /* ids of those that are held */
	double began, ended; /* ms */
};

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

struct fh_error *stop_not_permitted(pid_t pid)
{
	char path[64];
	CLEANUP_FREE char *status = NULL;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	status = procfs_text(path, NULL);
	if (status && procfs_field(status, "Uid") == getuid())
		return error_create(FH_ERROR_PERMISSION,
				    "process %d: not permitted to look at it, though its user is the same: it made itself "
				    "undumpable or changed its user (prctl(2), PR_SET_DUMPABLE), or has rights that we have "
				    "not, or see /proc/sys/kernel/yama/ptrace_scope; run with CAP_SYS_PTRACE (sudo)",
				    pid);
	return error_create(FH_ERROR_PERMISSION,
			    "process %d: not permitted to look at it; run as its user or with "
			    "CAP_SYS_PTRACE (sudo), and see /proc/sys/kernel/yama/ptrace_scope",
			    pid);
}

static struct fh_error *why_not_seized(pid_t pid, int error)
{
	CLEANUP_FREE char *status = NULL;
	char path[64];
	uint64_t tracer;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	status = procfs_text(path, NULL);
	if (!status)
		return error_create(FH_ERROR_NOT_FOUND, "process %d: it ended", pid);
	tracer = procfs_field(status, "TracerPid");
	if (tracer)
		return error_create(FH_ERROR_PERMISSION,
				    "process %d: it is traced by process %d already; detach that first", pid,
				    (int)tracer);
	if (procfs_ended(pid))
		return error_create(FH_ERROR_NOT_FOUND, "process %d: it has ended (zombie); no memory is left",
				    pid);
	if (error == EPERM)
		return stop_not_permitted(pid);
	return error_system(error, "process %d: can't stop it", pid);
}

/* Seizes and interrupts the threads that are not held yet; *ret_new is how many came. */
static struct fh_error *seize_new(struct stop *stop, size_t *ret_new)
{
	char path[64];
	struct dirent *entry;
	DIR *tasks;

	*ret_new = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", stop->pid);
	tasks = opendir(path);
	if (!tasks)
		return error_create(FH_ERROR_NOT_FOUND, "process %d: it ended", stop->pid);
	while ((entry = readdir(tasks))) {
		pid_t tid = (pid_t)atoi(entry->d_name);

		if (tid <= 0 || hashmap_get(&stop->known, (uint64_t)tid))
			continue;
		if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0) {
			int error = errno;

			/* One thread that ends meanwhile is no failure, nor is a main thread that ended before
			 * the others (EPERM); the first one's is. */
			if (error == ESRCH || (tid != stop->pid && stop->held.len) || procfs_ended(tid))
				continue;
			closedir(tasks);
			return why_not_seized(stop->pid, error);
		}
		ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
		if (!vec_push(&stop->held, (struct held_thread){ .tid = tid }) ||
		    !hashmap_put(&stop->known, (uint64_t)tid, 1)) {
			closedir(tasks);
			return error_no_memory();
		}
		++*ret_new;
	}
	closedir(tasks);
	return NULL;
}

/*
 * A thread stops for the interrupt, with its group, or because it was about to take a signal: ptrace(2), "Stopped
 * states". The last kind keeps the signal in the code of the stop, and it is lost when a wait takes the code and the
 * thread is let go without it. So the code is only looked at (WNOWAIT), which gives the signal back also when this
 * program is killed, and is passed on when the thread is let go.
 */
static void wait_stopped(struct held_thread *thread, double until)
{
	for (;;) {
		siginfo_t info = { 0 };
		int got = waitid(P_PID, (id_t)thread->tid, &info, __WALL | WSTOPPED | WEXITED | WNOHANG | WNOWAIT);

		if (got == 0 && info.si_pid == thread->tid) {
			thread->stopped = info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED;
			thread->ended = !thread->stopped;
			if (thread->ended)
				waitpid(thread->tid, NULL, __WALL | WNOHANG);
			else if (info.si_status >> 8 == 0)
				thread->signal = info.si_status;
			return;
		}
		if (got < 0 && errno != EINTR)
			return;
		if (now_ms() > until)
			return;
		/* Polling: a blocking wait could last for ever, and the first tries nearly
		 * always succeed. */
		nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	}
}

static bool get_registers(pid_t tid, struct source_thread *thread)
{
	struct user_regs_struct registers;
	struct iovec iov = { &registers, sizeof(registers) };

	_Static_assert(sizeof(registers) == sizeof(thread->registers), "x86-64");
	if (ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &iov) < 0 || iov.iov_len != sizeof(registers))
		return false;
	memcpy(thread->registers, &registers, sizeof(registers));
	thread->sp = registers.rsp;
	thread->ip = registers.rip;
	thread->fs_base = registers.fs_base;
	return true;
}

static struct fh_error *list_threads(struct stop *stop)
{
	struct source *source = stop->source;

	for (size_t i = 0; i < stop->held.len; i++) {
		const struct held_thread *held = &stop->held.items[i];
		struct source_thread thread = { .tid = held->tid };

		thread.has_registers = held->stopped && get_registers(held->tid, &thread);
		if (!vec_push(&source->threads, thread))
			return error_no_memory();
		if (held->tid == stop->pid) { /* the main thread comes first */
			struct source_thread first = source->threads.items[0];

			source->threads.items[0] = thread;
			*vec_last(&source->threads) = first;
		}
	}
	return NULL;
}

/* Nothing runs in a thread that sleeps in the kernel, but it may wake up, or wait for a child of vfork() that runs in
 * the same memory. */
static void tell_of_unstopped(const struct stop *stop)
{
	size_t n = 0;

	for (size_t i = 0; i < stop->held.len; i++)
		n += !stop->held.items[i].stopped && !stop->held.items[i].ended;
	if (n)
		source_warn(stop->source, "%zu of %zu threads did not stop within %d ms: they wait in the kernel, or for a "
			    "child of vfork(); if memory changed while it was read, parts may not fit together",
			    n, stop->held.len, PATIENCE_MS);
}

static struct fh_error *stop_all(struct stop *stop)
{
	size_t waited = 0, new_threads;

	do { /* threads may be made until all are stopped */
		double until;

		TRY(seize_new(stop, &new_threads));
		until = now_ms() + PATIENCE_MS;
		for (; waited < stop->held.len; waited++)
			wait_stopped(&stop->held.items[waited], until);
	} while (new_threads);
	if (!stop->held.len)
		return error_create(FH_ERROR_NOT_FOUND, "process %d: it ended", stop->pid);
	tell_of_unstopped(stop);
	return list_threads(stop);
}

static void *tracer_main(void *argument)
{
	struct stop *stop = argument;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	stop->began = now_ms();
	stop->error = stop_all(stop);
	pthread_mutex_lock(&stop->lock);
	stop->ready = true;
	pthread_cond_broadcast(&stop->changed);
	while (!stop->release && !stop->error)
		pthread_cond_wait(&stop->changed, &stop->lock);
	pthread_mutex_unlock(&stop->lock);
	for (size_t i = 0; i < stop->held.len; i++) {
		const struct held_thread *held = &stop->held.items[i];

		if (held->stopped)
			ptrace(PTRACE_DETACH, held->tid, NULL, (void *)(intptr_t)held->signal);
	}
	stop->ended = now_ms();
	return NULL; /* its end detaches what is left */
}

struct fh_error *stop_begin(pid_t pid, struct source *source, struct stop **ret)
{
	struct stop *stop = calloc(1, sizeof(*stop));
	int error;

	if (!stop)
		return error_no_memory();
	stop->pid = pid;
	stop->source = source;
	pthread_mutex_init(&stop->lock, NULL);
	pthread_cond_init(&stop->changed, NULL);
	error = pthread_create(&stop->tracer, NULL, tracer_main, stop);
	if (error) {
		free(stop);
		return error_system(error, "can't start a thread to trace with");
	}
	pthread_mutex_lock(&stop->lock);
	while (!stop->ready)
		pthread_cond_wait(&stop->changed, &stop->lock);
	pthread_mutex_unlock(&stop->lock);
	if (stop->error) {
		struct fh_error *why = TAKE(stop->error);

		stop_end(stop);
		return why;
	}
	*ret = stop;
	return NULL;
}

double stop_end(struct stop *stop)
{
	double paused;

	if (!stop)
		return -1;
	pthread_mutex_lock(&stop->lock);
	stop->release = true;
	pthread_cond_broadcast(&stop->changed);
	pthread_mutex_unlock(&stop->lock);
	pthread_join(stop->tracer, NULL);
	paused = stop->ended - stop->began;
	pthread_mutex_destroy(&stop->lock);
	pthread_cond_destroy(&stop->changed);
	fh_error_destroy(stop->error);
	vec_free(&stop->held);
	hashmap_deinit(&stop->known);
	free(stop);
	return paused;
}
