// Accessors of the packed ring's fields (virtio 1.4, 2.8), one each. Areas are local addresses that the
// host has checked to be aligned and inside the memory.

import { acquire, acquire32, publish } from '../order';
import {
  DESC_ADDR,
  DESC_BYTES,
  DESC_F_WRITE,
  DESC_LEN,
  EVENT_FLAGS,
  EVENT_FLAGS_MASK,
  EVENT_OFF_WRAP,
  PACKED_DESC_F_AVAIL,
  PACKED_DESC_F_USED,
  PACKED_DESC_FLAGS,
  PACKED_DESC_ID,
} from './layout';

// ---- Descriptors: of a ring, written by both sides in turn; of a table, by the driver only ----

// @ts-ignore: decorator
@inline
export function descriptor(ring: usize, slot: u32): usize {
  return ring + <usize>slot * DESC_BYTES;
}

// @ts-ignore: decorator
@inline
export function descAddr(desc: usize): u64 {
  return load<u64>(desc, DESC_ADDR);
}

// @ts-ignore: decorator
@inline
export function descAddrSet(desc: usize, addr: u64): void {
  store<u64>(desc, addr, DESC_ADDR);
}

/** Whoever sees these flags sees all that was stored before, in this descriptor and elsewhere. */
// @ts-ignore: decorator
@inline
export function descFlags(desc: usize): u32 {
  return acquire(desc + PACKED_DESC_FLAGS);
}

// @ts-ignore: decorator
@inline
export function descFlagsSet(desc: usize, flags: u32): void {
  publish(desc + PACKED_DESC_FLAGS, <u16>flags);
}

/** len and id, and flags once more, in one word, so that each is read exactly once. */
// @ts-ignore: decorator
@inline
export function descRest(desc: usize): u64 {
  return load<u64>(desc, DESC_LEN);
}

/**
 * For a device that reads flags with descRest: false if descriptors behind this one, and what they name, need not be
 * there yet even where its flags say so. `wanted`: the bits that it has once it is available.
 */
// @ts-ignore: decorator
@inline
export function isPublished(desc: usize, wanted: u32): bool {
  return !ASC_FEATURE_THREADS || ownerBits(descFlags(desc)) == wanted;
}

/** The id alone, for a chain whose other fields have been read. */
// @ts-ignore: decorator
@inline
export function descId(desc: usize): u32 {
  return load<u16>(desc, PACKED_DESC_ID);
}

/** Stores len, id and flags in one go: for descriptors that the other side does not look at yet. */
// @ts-ignore: decorator
@inline
export function descRestSet(desc: usize, len: u32, id: u32, flags: u32): void {
  store<u64>(desc, <u64>len | ((<u64>id) << 32) | ((<u64>flags) << 48), DESC_LEN);
}

/** id and flags in one word: what the descriptors of a chain have in common, as far as `flags` are common to all. */
// @ts-ignore: decorator
@inline
export function idFlags(id: u32, flags: u32): u32 {
  return id | (flags << 16);
}

/**
 * Stores len, id and flags of a descriptor that the other side does not look at yet: of a segment whose record has
 * `flags` in the lower half of a word, beside the flags in `same`.
 */
// @ts-ignore: decorator
@inline
export function descSegmentSet(desc: usize, len: u32, flags: u32, same: u32): void {
  store<u32>(desc, len, DESC_LEN);
  store<u32>(desc, (flags << 16) | same, PACKED_DESC_ID);
}

/** Stores len and id and leaves the flags alone: they follow with descFlagsSet. */
// @ts-ignore: decorator
@inline
export function descLenIdSet(desc: usize, len: u32, id: u32): void {
  store<u32>(desc, len, DESC_LEN);
  store<u16>(desc, <u16>id, PACKED_DESC_ID);
}

// @ts-ignore: decorator
@inline
export function restLen(rest: u64): u32 {
  return <u32>rest;
}

// @ts-ignore: decorator
@inline
export function restId(rest: u64): u32 {
  return <u32>(rest >> 32) & 0xffff;
}

// @ts-ignore: decorator
@inline
export function restFlags(rest: u64): u32 {
  return <u32>(rest >> 48);
}

/** AVAIL and USED bits of a descriptor made available in a lap with this wrap counter (2.8.1). */
// @ts-ignore: decorator
@inline
export function availBits(wrap: bool): u32 {
  return wrap ? PACKED_DESC_F_AVAIL : PACKED_DESC_F_USED;
}

/** AVAIL and USED bits of a descriptor used in a lap with this wrap counter (2.8.1). */
// @ts-ignore: decorator
@inline
export function usedBits(wrap: bool): u32 {
  return wrap ? PACKED_DESC_F_AVAIL | PACKED_DESC_F_USED : 0;
}

/** Flags of a used descriptor: WRITE says that its length means something (2.8.4). */
// @ts-ignore: decorator
@inline
export function usedFlags(written: u32, wrap: bool): u32 {
  return usedBits(wrap) | writeFlag(written);
}

// @ts-ignore: decorator
@inline
export function writeFlag(written: u32): u32 {
  return written != 0 ? DESC_F_WRITE : 0;
}

/** The two bits that say whose a descriptor is. */
// @ts-ignore: decorator
@inline
export function ownerBits(flags: u32): u32 {
  return flags & (PACKED_DESC_F_AVAIL | PACKED_DESC_F_USED);
}

// ---- Event suppression: the driver's structure is written by the driver, the device's by the device ----

// @ts-ignore: decorator
@inline
export function eventOffWrapSet(event: usize, offWrap: u32): void {
  publish(event + EVENT_OFF_WRAP, <u16>offWrap);
}

// @ts-ignore: decorator
@inline
export function eventFlagsSet(event: usize, flags: u32): void {
  publish(event + EVENT_FLAGS, <u16>flags);
}

/** Both fields in one load: a pair that the other side wrote, never half of one and half of another. */
// @ts-ignore: decorator
@inline
export function eventWord(event: usize): u32 {
  return acquire32(event);
}

// @ts-ignore: decorator
@inline
export function wordOffWrap(word: u32): u32 {
  return word & 0xffff;
}

// @ts-ignore: decorator
@inline
export function wordFlags(word: u32): u32 {
  return (word >> (EVENT_FLAGS << 3)) & EVENT_FLAGS_MASK;
}

// ---- Positions: slot and wrap counter in one word, as in off_wrap ----

// @ts-ignore: decorator
@inline
export function position(slot: u32, wrap: bool): u32 {
  return slot | ((<u32>wrap) << 15);
}

// @ts-ignore: decorator
@inline
export function positionSlot(position: u32): u32 {
  return position & 0x7fff;
}

// @ts-ignore: decorator
@inline
export function positionWrap(position: u32): bool {
  return <bool>((position >> 15) & 1);
}

/**
 * True if moving on by `moved` slots to (slot, wrap) passed the descriptor that `offWrap` names (2.8.10). An
 * event of the lap before lies `size` slots back. All differences are taken modulo 2^16.
 */
// @ts-ignore: decorator
@inline
export function passed(offWrap: u32, slot: u32, wrap: bool, moved: u32, size: u32): bool {
  let event = positionSlot(offWrap);
  if (positionWrap(offWrap) != wrap) event -= size;
  return <u16>(slot - event - 1) < <u16>moved;
}
