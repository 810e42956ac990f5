import type { DeviceQueue, DriverQueue } from '../../src/index.js';
import { BATCH, type Task } from '../harness/serve.js';
import { createEcho } from './echo.js';
import { mostSegments, SEGMENT_BYTES, segmentsOf, type TableTaskOptions } from './options.js';
import { createDriver, featuresOf } from './queues.js';

const NEXT = 1;
const WRITE = 2;

/** Bursts round and round: add what fits, have it answered, get it back, until the whole burst is through. */
export async function tableTask(options: TableTaskOptions): Promise<Task> {
  const { ring, size, burst: count, segments, species, peer } = options;
  const { engine, driver } = await createDriver(options);
  const shapes = Array.from({ length: count }, (_, i) => segmentsOf(segments, i));
  const total = shapes.reduce((sum, n) => sum + n, 0);
  const burst = driver.createBurst(count, total);
  const completions = driver.createCompletions(count);
  const buffers = engine.alloc(total * SEGMENT_BYTES, 64);
  const flags = species === 'receive' ? WRITE : 0;
  const written = species === 'receive' ? SEGMENT_BYTES : 0;
  const device =
    peer === 'device'
      ? engine.deviceQueue({ ring, size, features: featuresOf(options), areas: driver.areas })
      : undefined;
  const answer = device
    ? answerer(device, count, mostSegments(segments), written)
    : createEcho(driver, engine.buffer);
  const cycles = Math.max(1, Math.ceil(BATCH / count));

  function fill(): void {
    const { words, tokens } = burst;
    let at = 0;
    let address = buffers;
    for (let i = 0; i < count; i++) {
      const first = at;
      const n = shapes[i];
      for (let s = 0; s < n; s++) {
        words[at] = address;
        words[at + 1] = 0;
        words[at + 2] = SEGMENT_BYTES;
        words[at + 3] = flags | NEXT;
        at += 4;
        address += SEGMENT_BYTES;
      }
      words[at - 1] = flags;
      words[first + 3] |= n << 16;
      tokens[i] = i;
    }
    burst.commit(count);
  }

  return {
    buffers: cycles * count,
    batch() {
      for (let c = 0; c < cycles; c++) {
        fill();
        for (let done = 0; done < count; ) done += round(driver, burst, completions, answer);
      }
    },
  };
}

function round(
  driver: DriverQueue,
  burst: ReturnType<DriverQueue['createBurst']>,
  completions: ReturnType<DriverQueue['createCompletions']>,
  answer: (count: number) => void,
): number {
  const added = driver.addBurst(burst);
  driver.kickPrepare();
  answer(added);
  const got = driver.getBurst(completions);
  if (got !== added || got === 0) throw new Error(`${got} of ${added} buffers came back`);
  return got;
}

function answerer(
  device: DeviceQueue,
  count: number,
  segments: number,
  written: number,
): (count: number) => void {
  const elements = device.createElements(count, count * segments);
  return (wanted) => {
    const popped = device.popBurst(elements);
    const { words } = elements;
    for (let i = 0; i < popped; i++) words[i * 4 + 3] = written;
    device.pushBurst(elements);
    if (popped !== wanted) throw new Error(`${popped} of ${wanted} buffers arrived`);
  };
}
