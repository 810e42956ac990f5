// Accessors of the records that bursts are made of. They lie in memory that the host took from its
// arena and filled in itself: trusted, and never inside a region of a device.

import {
  DESC_F_WRITE,
  COMPLETION_BYTES,
  COMPLETION_LENGTH,
  COMPLETION_TOKEN,
  ELEMENT_BYTES,
  ELEMENT_FIRST,
  ELEMENT_ID,
  ELEMENT_IN,
  ELEMENT_OUT,
  ELEMENT_WRITTEN,
  PIECE_ADDRESS,
  PIECE_BYTES,
  PIECE_LENGTH,
  SEGMENT_ADDRESS,
  SEGMENT_FLAGS,
  SEGMENT_LENGTH,
  TOKEN_BYTES,
} from './layout';

// @ts-ignore: decorator
@inline
export function segmentAddress(record: usize): u64 {
  return load<u64>(record, SEGMENT_ADDRESS);
}

// @ts-ignore: decorator
@inline
export function segmentLength(record: usize): u32 {
  return load<u32>(record, SEGMENT_LENGTH);
}

/** flags in the lower half, count in the upper. */
// @ts-ignore: decorator
@inline
export function segmentFlagsCount(record: usize): u32 {
  return load<u32>(record, SEGMENT_FLAGS);
}

/** length, flags and count in one word: the low 48 bits have the shape of a descriptor's len and flags. */
// @ts-ignore: decorator
@inline
export function segmentRest(record: usize): u64 {
  return load<u64>(record, SEGMENT_LENGTH);
}

// @ts-ignore: decorator
@inline
export function restLength(rest: u64): u32 {
  return <u32>rest;
}

// @ts-ignore: decorator
@inline
export function restSegmentFlags(rest: u64): u32 {
  return <u32>(rest >> 32) & 0xffff;
}

// @ts-ignore: decorator
@inline
export function restCount(rest: u64): u32 {
  return <u32>(rest >> 48);
}

/** A segment record's word made a descriptor's, with `next` in place of the count. */
// @ts-ignore: decorator
@inline
export function linked(rest: u64, next: u32): u64 {
  return unlinked(rest) | ((<u64>next) << 48);
}

/** A segment record's word made that of a descriptor without NEXT. */
// @ts-ignore: decorator
@inline
export function unlinked(rest: u64): u64 {
  return rest & 0xffff_ffff_ffff;
}

// @ts-ignore: decorator
@inline
export function writableLength(rest: u64): u64 {
  return rest & ((<u64>DESC_F_WRITE) << 32) ? restLength(rest) : 0;
}

/** Of a buffer's first segment: the buffer has readable ones, which come first. */
// @ts-ignore: decorator
@inline
export function isReadable(rest: u64): bool {
  return (rest & ((<u64>DESC_F_WRITE) << 32)) == 0;
}

// @ts-ignore: decorator
@inline
export function token(tokens: usize, index: u32): u32 {
  return load<u32>(tokens + <usize>index * TOKEN_BYTES);
}

// @ts-ignore: decorator
@inline
export function completionSet(completions: usize, index: u32, token: u32, length: u32): void {
  const record = completions + <usize>index * COMPLETION_BYTES;
  store<u64>(record, <u64>token | ((<u64>length) << 32), COMPLETION_TOKEN);
}

/** Of a buffer that is completely written: `tokenWritable` as Buffer has it. */
// @ts-ignore: decorator
@inline
export function completionFull(completions: usize, index: u32, tokenWritable: u64): void {
  store<u64>(completions + <usize>index * COMPLETION_BYTES, tokenWritable, COMPLETION_TOKEN);
}

/** Another length for a completion. Returns the difference, modulo 2^64. */
// @ts-ignore: decorator
@inline
export function completionLess(completions: usize, index: u32, length: u32): u64 {
  const record = completions + <usize>index * COMPLETION_BYTES;
  const before = load<u32>(record, COMPLETION_LENGTH);
  store<u32>(record, length, COMPLETION_LENGTH);
  return <u64>length - before;
}

// @ts-ignore: decorator
@inline
export function element(elements: usize, index: u32): usize {
  return elements + <usize>index * ELEMENT_BYTES;
}

// @ts-ignore: decorator
@inline
export function elementId(record: usize): u32 {
  return load<u32>(record, ELEMENT_ID);
}

// @ts-ignore: decorator
@inline
export function elementWritten(record: usize): u32 {
  return load<u32>(record, ELEMENT_WRITTEN);
}

/** `counts` holds the number of out pieces in its low and of in pieces in its high half; written is 0. */
// @ts-ignore: decorator
@inline
export function elementSet(record: usize, id: u32, first: u32, counts: u32): void {
  store<u64>(record, <u64>id | ((<u64>first) << 32), ELEMENT_ID);
  store<u64>(record, counts, ELEMENT_OUT);
}

// @ts-ignore: decorator
@inline
export function pieceSet(pieces: usize, index: u32, address: u32, length: u32): void {
  const record = pieces + <usize>index * PIECE_BYTES;
  store<u64>(record, <u64>address | ((<u64>length) << 32), PIECE_ADDRESS);
}

// Neighbouring fields are stored together; a moved field must not compile.
if (
  COMPLETION_LENGTH != COMPLETION_TOKEN + 4 ||
  ELEMENT_FIRST != ELEMENT_ID + 4 ||
  ELEMENT_IN != ELEMENT_OUT + 2 ||
  ELEMENT_WRITTEN != ELEMENT_OUT + 4 ||
  PIECE_LENGTH != PIECE_ADDRESS + 4
)
  ERROR('abi/records.ts and abi/layout.ts disagree');
