# SPDX-License-Identifier: GPL-2.0-only
# sluice: one non-recursive Makefile; everything it makes is in build/. `make help` lists the targets.

PREFIX  ?= /usr/local
DESTDIR ?=
CC      ?= gcc
CLANG   ?= clang
BPFTOOL ?= /usr/sbin/bpftool
V       ?= 0
B       := build

PKGS    := libbpf libxdp libuv libmicrohttpd yaml-0.1 jansson sqlite3 libcurl
WARN    := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes
CFLAGS  ?= -O2 -g
ALL_CFLAGS = -std=gnu11 $(WARN) $(CFLAGS) -D_GNU_SOURCE -I. -I$(B) $(shell pkg-config --cflags $(PKGS))
LDLIBS  = $(shell pkg-config --libs $(PKGS)) -lelf -lz -lpthread -lm
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer

ARCH    := $(shell uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/')
MULTI   := $(shell $(CC) -print-multiarch 2>/dev/null)
# -idirafter: clang -target bpf has no system includes of its own, linux/types.h needs asm/.
BPF_CFLAGS := -target bpf -mcpu=v3 -O2 -g -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter \
	-Wno-address-of-packed-member -D__TARGET_ARCH_$(ARCH) -ffile-prefix-map=$(CURDIR)/= -I. -idirafter /usr/include/$(MULTI)

ifeq ($(V),0)
Q := @
msg = @printf '  %-8s %s\n' '$(1)' '$(patsubst $(B)/%,%,$(2))';
else
Q :=
msg =
endif

BPF_SRC   := $(wildcard bpf/*.bpf.c)
BPF_OBJ   := $(BPF_SRC:bpf/%.c=$(B)/bpf/%.o)
# sluicectl's parts are in the library too, so that unit tests can call them; main.c alone is not.
LIB_SRC   := $(wildcard user/decide/*.c user/datapath/*.c user/control/*.c) \
	$(filter-out user/cli/main.c,$(wildcard user/cli/*.c))
LIB_OBJ   := $(LIB_SRC:%.c=$(B)/obj/%.o)
CLI_SRC   := $(wildcard user/cli/main.c)
CLI_OBJ   := $(CLI_SRC:%.c=$(B)/obj/%.o)
UNIT_SRC  := $(wildcard tests/unit/test_*.c)
UNIT_BIN  := $(UNIT_SRC:tests/unit/%.c=$(B)/unit/%)
BPFT_SRC  := $(wildcard tests/bpf/test_*.c)
BPFT_BIN  := $(BPFT_SRC:tests/bpf/%.c=$(B)/tests-bpf/%)
FUZZ_SRC  := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ_BIN  := $(FUZZ_SRC:tests/fuzz/%.c=$(B)/fuzz/%)
TOOL_SRC  := $(wildcard tests/e2e/tools/*.c)
TOOL_BIN  := $(TOOL_SRC:tests/e2e/tools/%.c=$(B)/tools/%)
BENCH_SRC := $(filter-out %.bpf.c,$(wildcard tests/bench/*.c))
BENCH_OBJ := $(BENCH_SRC:%.c=$(B)/obj/%.o)
BENCH_BIN := $(B)/bench/bench

.PHONY: all demo test test-unit test-bpf test-fuzz test-e2e tools bench check format install clean help
.DELETE_ON_ERROR:
.SECONDARY:

all: $(B)/sluiced $(B)/sluicectl ## build sluiced and sluicectl

help: ## list the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile

# --- packet path -----------------------------------------------------------------------------------------------

$(B)/bpf/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/*.h maps/*.h) Makefile
	$(call msg,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@

$(B)/sluice.bpf.o: $(BPF_OBJ)
	$(call msg,GENOBJ,$@)
	$(Q)$(BPFTOOL) gen object $@ $^

$(B)/sluice.skel.h: $(B)/sluice.bpf.o
	$(call msg,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name sluice_bpf > $@

# --- user space ------------------------------------------------------------------------------------------------

$(B)/obj/%.o: %.c | $(B)/sluice.skel.h
	$(call msg,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(B)/libsluice.a: $(LIB_OBJ)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/sluiced: $(B)/obj/user/sluiced.o $(B)/libsluice.a
	$(call msg,LD,$@)
	$(Q)$(CC) $(CFLAGS) $^ $(LDLIBS) -o $@

$(B)/sluicectl: $(CLI_OBJ) $(B)/libsluice.a
	$(call msg,LD,$@)
	$(Q)$(CC) $(CFLAGS) $^ $(LDLIBS) -o $@

# --- tests -----------------------------------------------------------------------------------------------------

# Unit tests are pure C under sanitizers: sources they need are compiled again with them.
$(B)/san/%.o: %.c | $(B)/sluice.skel.h
	$(call msg,CC-SAN,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(SANITIZE) -MMD -MP -c $< -o $@

$(B)/libsluice-san.a: $(LIB_SRC:%.c=$(B)/san/%.o)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/unit/%: $(B)/san/tests/unit/%.o $(B)/libsluice-san.a
	$(call msg,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(SANITIZE) $^ $(LDLIBS) -lcmocka -o $@

$(B)/tests-bpf/%: $(B)/obj/tests/bpf/%.o $(patsubst %.c,$(B)/obj/%.o,$(filter-out tests/bpf/test_%,$(wildcard tests/bpf/*.c))) $(B)/libsluice.a
	$(call msg,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $^ $(LDLIBS) -lcmocka -o $@

# Fuzzers: clang's instrumentation, so that the library is compiled once more.
FUZZ_FLAGS := -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
$(B)/fuzz-obj/%.o: %.c | $(B)/sluice.skel.h
	$(call msg,CC-FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(filter-out -Werror,$(ALL_CFLAGS)) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@

$(B)/libsluice-fuzz.a: $(LIB_SRC:%.c=$(B)/fuzz-obj/%.o)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/fuzz/%: $(B)/fuzz-obj/tests/fuzz/%.o $(B)/libsluice-fuzz.a
	$(call msg,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer $^ $(LDLIBS) -o $@

$(B)/tools/delays: TOOL_LIBS := -lssl -lcrypto
$(B)/tools/%: tests/e2e/tools/%.c $(wildcard tests/e2e/tools/*.h)
	$(call msg,TOOL,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $< -lbpf -lpthread -lm $(TOOL_LIBS) -o $@

$(B)/bench/%.bpf.o: tests/bench/%.bpf.c tests/bench/%.h $(wildcard maps/*.h) Makefile
	$(call msg,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@

$(B)/bench/%.skel.h: $(B)/bench/%.bpf.o
	$(call msg,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

$(BENCH_OBJ): $(B)/bench/gen.skel.h $(B)/bench/turns.skel.h

$(BENCH_BIN): $(BENCH_OBJ) $(B)/libsluice.a
	$(call msg,LD,$@)
	$(Q)$(CC) $(CFLAGS) $^ $(LDLIBS) -o $@

tools: $(TOOL_BIN)

demo: ## the main job on real traffic
	scripts/demo

test: ## every test, as CI runs them
	scripts/test

test-unit: $(UNIT_BIN) ## pure C under sanitizers
	@scripts/run-tests unit $(UNIT_BIN)

test-bpf: $(BPFT_BIN) ## packets through the program (BPF_PROG_TEST_RUN)
	@scripts/run-tests bpf $(BPFT_BIN)

test-fuzz: $(FUZZ_BIN) ## what reads bytes from outside, 15 s each
	@scripts/run-tests fuzz $(FUZZ_BIN)

test-e2e: all $(TOOL_BIN) ## namespaces, real servers and clients
	@scripts/run-tests e2e

bench: all $(BENCH_BIN) ## ns per packet beside nftables and iptables
	@tests/bench/run

check: ## format, clang-tidy, layering, cases covered
	@scripts/check

format: ## rewrite the sources in the project's style
	clang-format -i $$(git ls-files '*.c' '*.h')

install: all ## into DESTDIR and PREFIX
	install -D -m 755 $(B)/sluiced $(DESTDIR)$(PREFIX)/sbin/sluiced
	install -D -m 755 $(B)/sluicectl $(DESTDIR)$(PREFIX)/bin/sluicectl
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's#@PREFIX@#$(PREFIX)#' scripts/sluiced.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/sluiced.service
	for m in $(wildcard user/man/*.[1-8]); do \
		install -D -m 644 $$m $(DESTDIR)$(PREFIX)/share/man/man$${m##*.}/$$(basename $$m); done

clean: ## remove build/
	rm -rf $(B)

-include $(shell find $(B) -name '*.d' 2>/dev/null)
