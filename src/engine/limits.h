/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every bound of the engine, with where its value comes from. What is
 * advertised to applications is read from here, so that it is what is enforced.
 */
#ifndef UROCE_ENGINE_LIMITS_H
#define UROCE_ENGINE_LIMITS_H

#define QPN_SPACE 65536u         /* numbers of a slot: 16 bits of the QPN */
#define QP_COUNT_MAX 65535u      /* all of them but 0, which no QPN ends in */
#define QP_WR_MAX 32768u         /* adapters offer 8 to 32 Ki */
#define QP_SGE_MAX 32u           /* as Linux rxe */
#define QP_INLINE_MAX 1024u      /* as common adapters; at least 220 is expected */
#define QP_RD_ATOMIC_MAX 128u    /* largest setting; as Linux rxe */
#define QP_RD_ATOMIC_DEFAULT 16u /* as common adapters */
#define CQ_CAPACITY_MAX 4194303u /* as common adapters */
#define CQ_COUNT_MAX 65535u
#define SRQ_COUNT_MAX 65535u
#define SRQ_WR_MAX 32767u
#define XRCD_COUNT_MAX 65535u
#define XRC_SRQN_SPACE 65536u   /* numbers of XRC SRQs; 0 is none */
#define MR_COUNT_MAX (1u << 20) /* together the index part of a key, see key.c */
#define MW_COUNT_MAX (1u << 20)
#define MR_LEN_MAX UINT64_MAX /* what the address space holds, and on demand all of it */
#define PD_COUNT_MAX 65535u
#define AH_COUNT_MAX 1000000u
/* A group costs a socket of the 1024 that a process usually may have. */
#define MULTICAST_GROUPS_MAX 256u
#define MULTICAST_QPS_MAX 256u /* of a group: so many copies one packet can cause */
#define MULTICAST_TOTAL_MAX (MULTICAST_GROUPS_MAX * MULTICAST_QPS_MAX)
#define MESSAGE_LEN_MAX (1u << 31) /* IBA 9.7: 2^31 bytes */
#define RATE_KBPS_MAX 1000000000u  /* 1 Tb/s: the fastest static rate is 1.2 */
/* Last ACKs that wait to leave: QPs are destroyed one by one, and each has its chance to send. */
#define FAREWELLS_MAX 64u
/* Who has waited longer has given up: 8 tries with time-out code 20, the largest in common use. */
#define FAREWELL_NS (8 * (4096ull << 20))
#define PMTU_MIN 256u
#define PMTU_MAX 4096u

#endif
