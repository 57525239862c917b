/* SPDX-License-Identifier: Apache-2.0 */
/* What packages and subs are called. */
#include <inttypes.h>
#include <stdio.h>

#include "runtime/perl/internal.h"

#define NAME_LEN 256 /* what is longer is cut */

bool hek_string(struct perl *perl, uint64_t hek, char *buffer, size_t size)
{
	uint32_t len;

	if (hek < PAGE || !source_u32(perl->target->source, hek + (uint64_t)perl->o->hek_len, &len) || len >> 31)
		return false;
	if (len > size - 1)
		len = (uint32_t)size - 1;
	buffer[len] = '\0';
	return source_read(perl->target->source, hek + (uint64_t)perl->o->hek_key, buffer, len);
}

/* A hash with several names has an array of them; the first may be empty. */
bool package_name(struct perl *perl, uint64_t stash, char *buffer, size_t size)
{
	struct source *source = perl->target->source;
	struct sv sv;
	uint64_t aux, name, first;
	uint32_t count;

	if (!sv_at(perl, stash, &sv) || !(aux = sv_hash_aux(perl, &sv)) ||
	    !source_u64(source, aux + (uint64_t)perl->o->aux_name, &name) || !name ||
	    !source_u32(source, aux + (uint64_t)perl->o->aux_name_count, &count))
		return false;
	if (!count)
		return hek_string(perl, name, buffer, size);
	if (!source_u64(source, name, &first))
		return false;
	if (!first && !source_u64(source, name + 8, &first))
		return false;
	return hek_string(perl, first, buffer, size);
}

/* "file:line" of the first statement of a sub, whose ops begin with one. */
static bool code_place(struct perl *perl, const struct sv *code, char *buffer, size_t size)
{
	struct source *source = perl->target->source;
	uint64_t start = sv_word(perl, code, perl->o->xcv_start), file_at;
	char file[NAME_LEN];
	const char *end;
	uint32_t line;

	file_at = sv_word(perl, code, perl->o->xcv_file);
	if (file_at < PAGE || !start)
		return false;
	if (!source_string(source, file_at, file, sizeof(file)))
		return false;
	end = strrchr(file, '/');
	if (!source_u32(source, start + (uint64_t)perl->o->cop_line, &line) || line > 10000000)
		return false;
	snprintf(buffer, size, "%s:%" PRIu32, end ? end + 1 : file, line);
	return true;
}

bool code_name(struct perl *perl, const struct sv *code, char *buffer, size_t size)
{
	uint32_t flags = sv_half(perl, code, perl->o->xcv_flags);
	uint64_t gv = sv_word(perl, code, perl->o->xcv_gv), stash, hek;
	char package[NAME_LEN], name[NAME_LEN], place[NAME_LEN + 16];
	struct sv glob;

	if (flags & perl->bits->cv_named) {
		hek = gv;
		stash = sv_word(perl, code, perl->o->xcv_stash);
	} else {
		if (!sv_at(perl, gv, &glob) || !sv_is(&glob, SV_GLOB))
			return false;
		hek = sv_word(perl, &glob, perl->o->xgv_namehek);
		stash = sv_word(perl, &glob, perl->o->xgv_stash);
	}
	if (!hek_string(perl, hek, name, sizeof(name)))
		return false;
	if (!package_name(perl, stash, package, sizeof(package)))
		snprintf(package, sizeof(package), "__ANON__");
	if (strcmp(name, "__ANON__") == 0 && !(flags & perl->bits->cv_xsub) &&
	    code_place(perl, code, place, sizeof(place)))
		snprintf(buffer, size, "%s::%s (%s)", package, name, place);
	else
		snprintf(buffer, size, "%s::%s", package, name);
	return true;
}

uint32_t owner_of(struct perl *perl, const struct sv *sv)
{
	uint64_t stash;
	const uint64_t *known;
	char name[NAME_LEN];
	const char *detail;
	uint32_t index;

	if (!(sv->flags & perl->bits->object) || !sv->body->magic)
		return sv->body->kind;
	stash = sv_word(perl, sv, perl->o->xmg_stash);
	known = hashmap_get(&perl->stashes, stash);
	if (known)
		return (uint32_t)*known;
	if (!package_name(perl, stash, name, sizeof(name)))
		return sv->body->kind;
	index = (uint32_t)perl->owners.len;
	detail = strings_add(perl->target->source->strings, name);
	if (!detail || !vec_push(&perl->owners, (struct owner){ .detail = detail }) ||
	    !hashmap_put(&perl->stashes, stash, index)) {
		perl->target->ledger->no_memory = true;
		return sv->body->kind;
	}
	return index;
}
