// When a buffer goes through a table: the threshold and how it moves. The contract is at `PolicyConfig` of
// src/engine/engine.ts.

import {
  CHANGE_ADDED,
  CHANGE_BYTES,
  CHANGE_VALUE,
  THRESHOLD_ADAPTIVE,
  THRESHOLD_CHANGES,
  THRESHOLD_ENTRIES,
  THRESHOLD_FIXED,
  THRESHOLD_HISTORY,
  THRESHOLD_HYSTERESIS,
  THRESHOLD_LAP,
  THRESHOLD_LAP_SEGMENTS,
  THRESHOLD_NO_LIMIT,
  THRESHOLD_PEAK,
  THRESHOLD_VALUE,
} from '../abi/layout';

@unmanaged
export class Threshold {
  private changes: u64;
  /** A buffer of more segments than this goes through a table. */
  value: u32;
  /** Hysteresis: segments added since the last look, and the most that were in flight after a burst. */
  private lap: u32;
  private peak: u32;
  /** THRESHOLD_* */
  mode: u32;
  private size: u32;
  private start: u32;
  /** Hysteresis: a buffer of the burst under way found no free descriptor. */
  private stressed: bool;

  static get bytes(): u32 {
    return THRESHOLD_ENTRIES + THRESHOLD_HISTORY * CHANGE_BYTES;
  }

  init(mode: u32, size: u32, value: u32): void {
    this.changes = 0;
    this.mode = mode;
    this.size = size;
    this.start = value;
    this.reset();
  }

  /** As after creation; the history stays. */
  reset(): void {
    this.value = this.start;
    this.lap = 0;
    this.peak = 0;
    this.stressed = false;
  }

  /**
   * A buffer is about to be added that is not one of those that `room` spares it.
   * @param count its segments
   * @param out it has a readable segment
   * @param free descriptors that are free
   * @param added buffers added so far
   */
  observe(count: u32, out: bool, free: u32, added: u64): void {
    if (this.mode == THRESHOLD_FIXED) return;
    const adaptive = this.mode == THRESHOLD_ADAPTIVE;
    const stress = adaptive ? (out ? count >= free : free == this.size) : free == 0;
    if (!stress) return;
    this.stressed = !adaptive;
    this.set((this.value >> 1) | 1, added);
  }

  /** Segments of direct buffers that may be added before it has to see one, with `free` descriptors free. */
  @inline
  room(free: u32): u32 {
    if (this.mode != THRESHOLD_ADAPTIVE) return free;
    // A buffer that finds the ring empty may be stress; so is one that takes what is left.
    return free == this.size || free == 0 ? 0 : free - 1;
  }

  /**
   * Most segments of a buffer that goes direct, with `n` buffers left in the burst, this one included: the others are
   * to have a descriptor each.
   */
  @inline
  reserve(free: u32, n: u32): u32 {
    if (this.mode != THRESHOLD_HYSTERESIS) return THRESHOLD_NO_LIMIT;
    return free >= n ? free - n + 1 : 1;
  }

  /**
   * Most segments that a buffer in a table may have beyond the number of free descriptors (modulo 2^32) without being
   * seen; from a burst's first such buffer on.
   */
  spare(free: u32): u32 {
    if (this.mode != THRESHOLD_ADAPTIVE) return THRESHOLD_NO_LIMIT;
    return free == this.size ? 0 - free : -1;
  }

  /** A burst of `segments` was added; so many are in flight now. Hysteresis only. */
  settle(segments: u32, inFlight: u32, added: u64): void {
    if (this.stressed) {
      this.stressed = false;
      this.lap = 0;
      this.peak = 0;
      return;
    }
    if (inFlight > this.peak) this.peak = inFlight;
    this.lap += segments;
    if (this.lap < max(this.size, <u32>THRESHOLD_LAP_SEGMENTS)) return;
    // Direct descriptors would have done, with a quarter to spare.
    const relaxed = this.peak <= this.size - (this.size >> 2);
    this.lap = 0;
    this.peak = 0;
    if (relaxed) this.set(min((this.value << 1) | 1, this.size), added);
  }

  private set(value: u32, added: u64): void {
    if (value == this.value) return;
    this.value = value;
    const entry =
      changetype<usize>(this) +
      THRESHOLD_ENTRIES +
      <usize>((<u32>this.changes & (THRESHOLD_HISTORY - 1)) * CHANGE_BYTES);
    this.changes++;
    store<u64>(entry, added, CHANGE_ADDED);
    store<u32>(entry, value, CHANGE_VALUE);
  }
}

// The host reads and writes these by the numbers of layout.ts; a moved field must not compile.
if (
  offsetof<Threshold>('changes') != THRESHOLD_CHANGES ||
  offsetof<Threshold>('value') != THRESHOLD_VALUE ||
  offsetof<Threshold>('lap') != THRESHOLD_LAP ||
  offsetof<Threshold>('peak') != THRESHOLD_PEAK ||
  offsetof<Threshold>() > <usize>THRESHOLD_ENTRIES
)
  ERROR('indirect/threshold.ts and abi/layout.ts disagree');
