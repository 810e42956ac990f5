import { THRESHOLD_HISTORY } from '../../../../assembly/abi/layout.js';
import type { PolicyConfig, ThresholdChange, ThresholdState } from '../../engine.js';

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
  }

  /** The last changes, oldest first. */
  get history(): ThresholdChange[] {
    return this.past.map((change) => ({ ...change }));
  }

  /**
   * A buffer is about to be added.
   * @param out it has a readable segment
   * @param free descriptors that are free
   * @param before segments in flight
   * @param added buffers added so far
   */
  observe(segments: number, out: boolean, free: number, before: number, added: number): void {
    if (!this.hysteresis) {
      if (out ? segments >= free : free === this.size) this.lower(added);
    } else if (segments > free) {
      this.lap = 0;
      this.peak = 0;
      this.lower(added);
    } else {
      this.pass(segments, before + segments, added);
    }
  }

  /** `n` buffers of one segment are about to be added, all of which have room: as if one by one. Hysteresis only. */
  observeSingles(n: number, before: number, added: number): void {
    let done = 0;
    const look = this.size - this.lap;
    if (n >= look) {
      this.pass(look, before + look, added + look - 1);
      done = look;
    }
    if (done < n) this.pass(n - done, before + n, added);
  }

  private pass(segments: number, demand: number, added: number): void {
    const { size } = this;
    this.peak = Math.max(this.peak, demand);
    this.lap += segments;
    if (this.lap < size) return;
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
