import type { Load } from '../support/engines.js';
import { replayPackedDevice, replayPackedDriver } from './packed.js';
import { replaySplitDevice, replaySplitDriver } from './split.js';
import type { Trace } from './trace.js';

/** Which of our two sides takes part; the trace is the other one. */
export type Side = 'driver' | 'device';

export const SIDES: readonly Side[] = ['driver', 'device'];

type Replay = (trace: Trace, load: Load) => Promise<void>;

const REPLAYS: Record<Trace['ring'], Record<Side, Replay>> = {
  packed: { driver: replayPackedDriver, device: replayPackedDevice },
  split: { driver: replaySplitDriver, device: replaySplitDevice },
};

/**
 * Lets one side of a queue of ours take the place of the traced one.
 * @throws Mismatch where it does something else than a correct implementation may
 */
export async function replay(trace: Trace, side: Side, load: Load): Promise<void> {
  await REPLAYS[trace.ring][side](trace, load);
}
