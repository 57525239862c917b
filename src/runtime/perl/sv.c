/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/perl/internal.h"

bool sv_at(struct perl *perl, uint64_t address, struct sv *ret)
{
	uint8_t scratch[HEAD_SIZE];
	const uint8_t *head;

	if (address < PAGE || address % 8)
		return false;
	head = source_get(perl->target->source, address, HEAD_SIZE, scratch);
	if (!head)
		return false;
	*ret = (struct sv){ .address = address };
	memcpy(&ret->any, head, 8);
	memcpy(&ret->refcnt, head + 8, 4);
	memcpy(&ret->flags, head + 12, 4);
	memcpy(&ret->u, head + 16, 8);
	if ((ret->flags & 0xff) < SVT_MOST && perl->bodies[ret->flags & 0xff].known)
		ret->body = &perl->bodies[ret->flags & 0xff];
	return ret->body != NULL;
}

/* Behind the bucket array to 5.34, in the body since 5.36. */
uint64_t sv_hash_aux(struct perl *perl, const struct sv *hash)
{
	uint64_t max;

	if (!sv_is(hash, SV_HASH) || !(hash->flags & perl->bits->hasaux))
		return 0;
	if (perl->o->xhv_aux >= 0)
		return hash->any + (uint64_t)perl->o->xhv_aux;
	max = sv_word(perl, hash, perl->o->xhv_max);
	return hash->u && max < UINT64_C(1) << 40 ? hash->u + 8 * (max + 1) : 0;
}

bool sv_string(struct perl *perl, const struct sv *sv, char *buffer, size_t size)
{
	uint64_t len;

	if (!sv->body->pv || sv->flags & perl->bits->rok || !(sv->flags & perl->bits->pok) || !sv->u)
		return false;
	len = sv_word(perl, sv, perl->o->xpv_cur);
	if (len > size - 1)
		len = size - 1;
	buffer[len] = '\0';
	return source_read(perl->target->source, sv->u, buffer, len);
}

/* A string whose head was chopped off keeps how much that was just before what is left (SvOOK_offset in sv.h). */
uint64_t sv_string_start(struct perl *perl, const struct sv *sv)
{
	struct source *source = perl->target->source;
	uint64_t delta = 0;
	uint8_t byte = 0;

	if (!(sv->flags & perl->bits->ook) || !source_read(source, sv->u - 1, &byte, 1))
		return sv->u;
	delta = byte;
	if (!byte && (!source_u64(source, sv->u - 9, &delta) || delta > sv->u))
		return sv->u;
	return sv->u - delta;
}
