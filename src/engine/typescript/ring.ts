import { COUNTERS, FAULT_NONE, RESULT_BROKEN } from '../../../assembly/abi/layout.js';
import type { LinearMemory } from '../../memory.js';
import type { Ring } from '../engine.js';

/** What the rings of this engine have in common: the memory, the counters and the first fault. */
export abstract class BaseRing implements Ring {
  fault = FAULT_NONE;
  faultA = 0n;
  faultB = 0n;

  declare protected readonly memory: LinearMemory;
  declare protected readonly shared: boolean;
  /** COUNT_*; doubles, exact to 2^53, so that no counter ever becomes an object on the heap. */
  protected readonly counts = new Float64Array(COUNTERS);

  protected constructor(memory: LinearMemory) {
    this.memory = memory;
    this.shared = memory.shared;
  }

  counter(index: number): number {
    return this.counts[index];
  }

  addCounter(index: number, n: number): void {
    this.counts[index] += n;
  }

  /** Nothing of this engine's state lies in the arena. */
  release(): void {}

  /** Marks the ring as broken until `reset`. The first fault stays. */
  protected broke(kind: number, a: bigint, b: bigint): number {
    if (this.fault === FAULT_NONE) {
      this.fault = kind;
      this.faultA = a;
      this.faultB = b;
    }
    return RESULT_BROKEN;
  }

  protected mend(): void {
    this.fault = FAULT_NONE;
    this.faultA = 0n;
    this.faultB = 0n;
  }
}
