import type { Load } from '../support/engines.js';
import { replaySplitDevice, replaySplitDriver } from './split.js';
import type { Trace } from './trace.js';

/** Which of our two sides takes part; the trace is the other one. */
export type Side = 'driver' | 'device';

export const SIDES: readonly Side[] = ['driver', 'device'];

type Replay = (trace: Trace, load: Load) => Promise<void>;

const REPLAYS: Partial<Record<Trace['ring'], Record<Side, Replay>>> = {
  split: { driver: replaySplitDriver, device: replaySplitDevice },
};

/** True if traces of this ring format can be replayed. */
export const supported = (ring: Trace['ring']): boolean => REPLAYS[ring] !== undefined;

/**
 * Lets one side of a queue of ours take the place of the traced one.
 * @throws Mismatch where it does something else than a correct implementation may
 */
export async function replay(trace: Trace, side: Side, load: Load): Promise<void> {
  const replays = REPLAYS[trace.ring];
  if (!replays) throw new Error(`ring ${trace.ring} is not supported`);
  await replays[side](trace, load);
}
