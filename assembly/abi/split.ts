// Accessors of the split ring's fields (virtio 1.4, 2.7), one each. Areas are local addresses that the
// host has checked to be aligned and inside the memory.

import { acquire, publish } from '../order';
import {
  AVAIL_FLAGS,
  AVAIL_IDX,
  AVAIL_RING,
  DESC_ADDR,
  DESC_BYTES,
  DESC_FLAGS,
  DESC_LEN,
  DESC_NEXT,
  USED_ELEM_BYTES,
  USED_ELEM_ID,
  USED_ELEM_LEN,
  USED_FLAGS,
  USED_IDX,
  USED_RING,
} from './layout';

// ---- Descriptor table: written by the driver only ----

// @ts-ignore: decorator
@inline
export function descriptor(table: usize, index: u32): usize {
  return table + <usize>index * DESC_BYTES;
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

/** len, flags and next in one word, so that a device reads each of them exactly once. */
// @ts-ignore: decorator
@inline
export function descRest(desc: usize): u64 {
  return load<u64>(desc, DESC_LEN);
}

// One field each, for a loop that is faster without the word that holds all three. Each is read once there as well.

// @ts-ignore: decorator
@inline
export function descLen(desc: usize): u32 {
  return load<u32>(desc, DESC_LEN);
}

// @ts-ignore: decorator
@inline
export function descFlags(desc: usize): u32 {
  return load<u16>(desc, DESC_FLAGS);
}

// @ts-ignore: decorator
@inline
export function descNext(desc: usize): u32 {
  return load<u16>(desc, DESC_NEXT);
}

// @ts-ignore: decorator
@inline
export function descRestSet(desc: usize, rest: u64): void {
  store<u64>(desc, rest, DESC_LEN);
}

// @ts-ignore: decorator
@inline
export function packRest(len: u32, flags: u32, next: u32): u64 {
  return <u64>len | ((<u64>flags) << 32) | ((<u64>next) << 48);
}

// @ts-ignore: decorator
@inline
export function restLen(rest: u64): u32 {
  return <u32>rest;
}

// @ts-ignore: decorator
@inline
export function restFlags(rest: u64): u32 {
  return <u32>(rest >> 32) & 0xffff;
}

// @ts-ignore: decorator
@inline
export function restNext(rest: u64): u32 {
  return <u32>(rest >> 48);
}

// ---- Available ring: written by the driver only ----

// @ts-ignore: decorator
@inline
export function availFlags(avail: usize): u16 {
  return acquire(avail + AVAIL_FLAGS);
}

// @ts-ignore: decorator
@inline
export function availFlagsSet(avail: usize, flags: u16): void {
  publish(avail + AVAIL_FLAGS, flags);
}

// @ts-ignore: decorator
@inline
export function availIdx(avail: usize): u16 {
  return acquire(avail + AVAIL_IDX);
}

/** Everything stored to the descriptors and the ring before is visible to whoever sees this index. */
// @ts-ignore: decorator
@inline
export function availIdxSet(avail: usize, idx: u16): void {
  publish(avail + AVAIL_IDX, idx);
}

// @ts-ignore: decorator
@inline
export function availRing(avail: usize, slot: u32): u32 {
  return load<u16>(avail + ((<usize>slot) << 1), AVAIL_RING);
}

// @ts-ignore: decorator
@inline
export function availRingSet(avail: usize, slot: u32, head: u32): void {
  store<u16>(avail + ((<usize>slot) << 1), <u16>head, AVAIL_RING);
}

/** used_event lies behind the ring. */
// @ts-ignore: decorator
@inline
export function usedEvent(avail: usize, size: u32): u16 {
  return acquire(avail + AVAIL_RING + ((<usize>size) << 1));
}

// @ts-ignore: decorator
@inline
export function usedEventSet(avail: usize, size: u32, event: u16): void {
  publish(avail + AVAIL_RING + ((<usize>size) << 1), event);
}

// ---- Used ring: written by the device only ----

// @ts-ignore: decorator
@inline
export function usedFlags(used: usize): u16 {
  return acquire(used + USED_FLAGS);
}

// @ts-ignore: decorator
@inline
export function usedFlagsSet(used: usize, flags: u16): void {
  publish(used + USED_FLAGS, flags);
}

// @ts-ignore: decorator
@inline
export function usedIdx(used: usize): u16 {
  return acquire(used + USED_IDX);
}

/** The used entries and the bytes written to the buffers before are visible to whoever sees this index. */
// @ts-ignore: decorator
@inline
export function usedIdxSet(used: usize, idx: u16): void {
  publish(used + USED_IDX, idx);
}

// @ts-ignore: decorator
@inline
export function usedElem(used: usize, slot: u32): usize {
  return used + USED_RING + <usize>slot * USED_ELEM_BYTES;
}

/** id and len in one word, so that each is read exactly once. */
// @ts-ignore: decorator
@inline
export function usedElemPair(elem: usize): u64 {
  return load<u64>(elem, USED_ELEM_ID);
}

// @ts-ignore: decorator
@inline
export function pairId(pair: u64): u32 {
  return <u32>pair;
}

// @ts-ignore: decorator
@inline
export function pairLen(pair: u64): u32 {
  return <u32>(pair >> 32);
}

// @ts-ignore: decorator
@inline
export function usedElemSet(elem: usize, id: u32, len: u32): void {
  store<u64>(elem, <u64>id | ((<u64>len) << 32), USED_ELEM_ID);
}

/** avail_event lies behind the ring. */
// @ts-ignore: decorator
@inline
export function availEvent(used: usize, size: u32): u16 {
  return acquire(usedElem(used, size));
}

// @ts-ignore: decorator
@inline
export function availEventSet(used: usize, size: u32, event: u16): void {
  publish(usedElem(used, size), event);
}

/**
 * True if moving an index from `before` to `after` passed `event` (2.7.7, 2.7.10): the entry with index
 * `event` was written. All three wrap at 65536.
 */
// @ts-ignore: decorator
@inline
export function passed(event: u16, after: u16, before: u16): bool {
  return <u16>(after - event - 1) < <u16>(after - before);
}

// id and len are loaded and stored together; a moved field must not compile.
if (USED_ELEM_LEN != USED_ELEM_ID + 4 || USED_ELEM_BYTES != 8)
  ERROR('abi/split.ts and abi/layout.ts disagree');
