// SPDX-License-Identifier: GPL-2.0-only
/* find.c: a service by the name in a request, and the nearest one for those that are misspelt. */
#include "user/control/api.h"

#include <stdint.h>
#include <string.h>

#include "user/control/nearest.h"

int find_service(const struct call *call, const char *name, struct service **ret_service, struct problem *problem)
{
	struct service *service = daemon_service(call->d, name);
	char known[256] = "", hint[320] = "", quoted[QUOTE_LEN];
	size_t used = 0, nearest = SIZE_MAX;

	if (service) {
		*ret_service = service;
		return 0;
	}
	for (size_t i = 0; i < call->d->service_count; i++) {
		const char *other = call->d->services[i]->policy.name;
		size_t far = text_distance(name, other);

		if (used < sizeof(known))
			used += snprintf(known + used, sizeof(known) - used, "%s%s", used ? ", " : "", other);
		if (far < nearest && far <= 1 + strlen(other) / 3) {
			nearest = far;
			snprintf(hint, sizeof(hint), "did you mean %s?", other);
		}
	}
	return problem_value(problem, 404, "service", name, known, hint, "there is no service %s", quote(name, quoted));
}
