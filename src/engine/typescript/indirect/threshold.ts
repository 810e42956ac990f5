import { THRESHOLD_HISTORY, THRESHOLD_LAP_SEGMENTS } from '../../../../assembly/abi/layout.js';
import type { PolicyConfig, ThresholdChange, ThresholdState } from '../../engine.js';

/**
 * Whether a buffer is to go through a table: above the threshold, where it does not fit otherwise, and with hysteresis
 * also where those behind it in the burst would not have a descriptor each.
 * @param free descriptors that are free
 * @param left buffers of the burst, this one included
 */
export const wantsTable = (
  segments: number,
  threshold: number,
  free: number,
  left: number,
  hysteresis: boolean,
): boolean =>
  segments > threshold || segments > free || (hysteresis && segments > 1 && segments > free - (left - 1));

/** When a buffer goes through a table, and how that changes; `PolicyConfig` has the contract. */
export class Threshold {
  value: number;
  changes = 0;
  /** The threshold moves. */
  readonly adaptive: boolean;
  readonly hysteresis: boolean;
  private readonly start: number;
  private lap = 0;
  private peak = 0;
  /** A buffer of the burst under way found no free descriptor. */
  private stressed = false;
  private readonly past: ThresholdChange[] = [];

  constructor(
    { policy, threshold }: PolicyConfig,
    private readonly size: number,
  ) {
    this.hysteresis = policy === 'adaptive-hysteresis';
    this.adaptive = this.hysteresis || policy === 'adaptive';
    this.start = this.adaptive ? size : policy === 'static' ? threshold : 1;
    this.value = this.start;
  }

  /** As at the start, but for the history. */
  reset(): void {
    this.value = this.start;
    this.lap = 0;
    this.peak = 0;
    this.stressed = false;
  }

  /** The last changes, oldest first. */
  get history(): ThresholdChange[] {
    return this.past.map((change) => ({ ...change }));
  }

  /**
   * A buffer is about to be added.
   * @param out it has a readable segment
   * @param free descriptors that are free
   * @param added buffers added so far
   */
  observe(segments: number, out: boolean, free: number, added: number): void {
    if (this.hysteresis) {
      if (free !== 0) return;
      this.stressed = true;
      this.lower(added);
    } else if (out ? segments >= free : free === this.size) this.lower(added);
  }

  /** The end of a burst of so many segments, with so many in flight. Hysteresis only. */
  settle(segments: number, inFlight: number, added: number): void {
    if (this.stressed) {
      this.stressed = false;
      this.lap = 0;
      this.peak = 0;
      return;
    }
    const { size } = this;
    this.peak = Math.max(this.peak, inFlight);
    this.lap += segments;
    if (this.lap < Math.max(size, THRESHOLD_LAP_SEGMENTS)) return;
    const room = this.peak <= size - (size >>> 2);
    this.lap = 0;
    this.peak = 0;
    if (room) this.move(Math.min(size, (this.value << 1) | 1), added);
  }

  private lower(added: number): void {
    this.move((this.value >>> 1) | 1, added);
  }

  private move(value: number, added: number): void {
    if (value === this.value) return;
    this.value = value;
    this.changes++;
    this.past.push({ added, threshold: value });
    if (this.past.length > THRESHOLD_HISTORY) this.past.shift();
  }

  save(): ThresholdState {
    return { threshold: this.value, lap: this.lap, peak: this.peak };
  }

  load({ threshold, lap, peak }: ThresholdState): void {
    this.value = threshold;
    this.lap = lap;
    this.peak = peak;
  }
}
