/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * log.h: one line each on stderr. A storm of lines is bounded (LOG_BURST, then LOG_PER_S a second) and says how many
 * it left out. The service manager stamps the time.
 */
#ifndef SLUICE_LOG_H
#define SLUICE_LOG_H

enum log_level { LOG_LEVEL_error, LOG_LEVEL_warning, LOG_LEVEL_info };

#define LOG_BURST 50
#define LOG_PER_S 5

void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_error, __VA_ARGS__)
#define log_warning(...) log_line(LOG_LEVEL_warning, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_info, __VA_ARGS__)

#endif /* SLUICE_LOG_H */
