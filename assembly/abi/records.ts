// Accessors of the records that bursts are made of. They lie in memory that the host took from its
// arena and filled in itself: trusted, and never inside a region of a device.

import {
  COMPLETION_BYTES,
  COMPLETION_LENGTH,
  COMPLETION_TOKEN,
  ELEMENT_BYTES,
  ELEMENT_FIRST,
  ELEMENT_ID,
  ELEMENT_OUT,
  ELEMENT_WRITTEN,
  PIECE_ADDRESS,
  PIECE_BYTES,
  PIECE_LENGTH,
  SEGMENT_ADDRESS,
  SEGMENT_LENGTH,
  TOKEN_BYTES,
} from './layout';

export function segmentAddress(record: usize): u64 {
  return load<u64>(record, SEGMENT_ADDRESS);
}

/** length, flags and count in one word: the low 48 bits have the shape of a descriptor's len and flags. */
export function segmentRest(record: usize): u64 {
  return load<u64>(record, SEGMENT_LENGTH);
}

export function restCount(rest: u64): u32 {
  return <u32>(rest >> 48);
}

export function token(tokens: usize, index: u32): u32 {
  return load<u32>(tokens + <usize>index * TOKEN_BYTES);
}

export function completionSet(completions: usize, index: u32, token: u32, length: u32): void {
  const record = completions + <usize>index * COMPLETION_BYTES;
  store<u32>(record, token, COMPLETION_TOKEN);
  store<u32>(record, length, COMPLETION_LENGTH);
}

export function element(elements: usize, index: u32): usize {
  return elements + <usize>index * ELEMENT_BYTES;
}

export function elementId(record: usize): u32 {
  return load<u32>(record, ELEMENT_ID);
}

export function elementWritten(record: usize): u32 {
  return load<u32>(record, ELEMENT_WRITTEN);
}

/** `counts` holds the number of out pieces in its low and of in pieces in its high half. */
export function elementSet(record: usize, id: u32, first: u32, counts: u32): void {
  store<u32>(record, id, ELEMENT_ID);
  store<u32>(record, first, ELEMENT_FIRST);
  store<u32>(record, counts, ELEMENT_OUT);
  store<u32>(record, 0, ELEMENT_WRITTEN);
}

export function pieceSet(pieces: usize, index: u32, address: u32, length: u32): void {
  const record = pieces + <usize>index * PIECE_BYTES;
  store<u32>(record, address, PIECE_ADDRESS);
  store<u32>(record, length, PIECE_LENGTH);
}
