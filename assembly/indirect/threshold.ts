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
  THRESHOLD_PEAK,
  THRESHOLD_VALUE,
} from '../abi/layout';

@unmanaged
export class Threshold {
  private changes: u64;
  /** A buffer of more segments than this goes through a table. */
  value: u32;
  /** Hysteresis: segments added since the last look, and the most that were in flight at once. */
  private lap: u32;
  private peak: u32;
  /** THRESHOLD_* */
  mode: u32;
  private size: u32;
  private start: u32;

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
  }

  /**
   * A buffer is about to be added.
   * @param count its segments
   * @param out it has a readable segment
   * @param free descriptors that are free
   * @param before segments of the buffers in flight
   * @param added buffers added so far
   */
  observe(count: u32, out: bool, free: u32, before: u32, added: u64): void {
    if (this.mode == THRESHOLD_FIXED) return;
    if (this.mode == THRESHOLD_ADAPTIVE) {
      const stress = out ? count >= free : free == this.size;
      if (stress) this.set((this.value >> 1) | 1, added);
    } else if (count > free) {
      this.lap = 0;
      this.peak = 0;
      this.set((this.value >> 1) | 1, added);
    } else this.pass(count, before + count, added);
  }

  /**
   * Segments of buffers that may be added before it has to see one, with `free` descriptors free, and as many or
   * more stay free for those that are not FIXED.
   */
  @inline
  room(free: u32): u32 {
    return this.mode == THRESHOLD_FIXED ? free : this.roomBefore(free);
  }

  private roomBefore(free: u32): u32 {
    if (free == 0) return 0;
    if (this.mode == THRESHOLD_HYSTERESIS) return min(free - 1, this.size - this.lap - 1);
    // A buffer that finds the ring empty may be stress; so is one that takes what is left.
    return free == this.size ? 0 : free - 1;
  }

  /** Buffers of so many segments in all were added without being seen, as far as `room` allows. */
  @inline
  note(segments: u32, before: u32): void {
    if (this.mode == THRESHOLD_HYSTERESIS) this.pass(segments, before + segments, 0);
  }

  private pass(count: u32, demand: u32, added: u64): void {
    if (demand > this.peak) this.peak = demand;
    this.lap += count;
    if (this.lap < this.size) return;
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
  offsetof<Threshold>() != THRESHOLD_ENTRIES
)
  ERROR('indirect/threshold.ts and abi/layout.ts disagree');
