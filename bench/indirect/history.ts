import type { Result } from '../../src/cli/report.js';
import type { RingFormat } from '../../src/index.js';
import { createEcho } from './echo.js';
import { segmentsOf } from './options.js';
import { createDriver } from './queues.js';

const SIZE = 256;
/** Buffers kept in flight, and for how many. */
const PHASES = [
  { depth: 8, buffers: 3000 },
  { depth: 100, buffers: 3000 },
  { depth: 8, buffers: 6000 },
];

export const MOVES = `ring size ${SIZE}, send, 1, 2, 4 and 17 segments in turn; 8 buffers in flight, then 100, then 8 again`;

/** The threshold of both adaptive policies under a load that comes and goes. Nothing is timed. */
export async function thresholdOverTime(ring: RingFormat): Promise<Result[]> {
  const results: Result[] = [];
  for (const policy of ['adaptive', 'adaptive-hysteresis'] as const) {
    const { engine, driver } = await createDriver({
      ring,
      size: SIZE,
      burst: 1,
      segments: 'mixed',
      species: 'send',
      peer: 'echo',
      engine: 'wasm',
      strategy: 'list',
      table: 8,
      policy,
    });
    const echo = createEcho(driver, engine.buffer);
    const point = (added: number, threshold: number) => {
      results.push({
        name: policy,
        engine: 'wasm',
        ring,
        unit: 'segments',
        median: threshold,
        min: threshold,
        max: threshold,
        runs: 1,
        params: { added },
      });
    };
    point(0, driver.stats().threshold.value);
    let token = 0;
    let seen = 0;
    for (const { depth, buffers } of PHASES)
      for (const end = token + buffers; token < end; ) {
        const segments = Array.from({ length: segmentsOf('mixed', token) }, () => ({
          address: 0,
          length: 64,
        }));
        const fits = driver.inFlight < depth && driver.add(segments, [], token);
        if (fits) token++;
        else {
          echo(1);
          driver.getBuf();
        }
        // The history is bounded: taken as it comes.
        const { changes, history } = driver.stats().threshold;
        for (const change of changes > seen ? history.slice(seen - changes) : [])
          point(change.added, change.threshold);
        seen = changes;
      }
    point(token, driver.stats().threshold.value);
  }
  return results;
}
