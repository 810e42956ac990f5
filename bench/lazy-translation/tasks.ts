import { type DeviceQueue, Feature, loadEngine } from '../../src/index.js';
import { BATCH, type Task } from '../harness/serve.js';
import {
  type Operation,
  outSegments,
  SEGMENT_BYTES,
  type TranslationOptions,
  writtenBytes,
} from './options.js';
import { createPeer } from './peer.js';

/** What is timed, by operation. */
export const OPERATIONS: Record<Operation, (options: TranslationOptions) => Promise<Task>> = {
  cycle,
  burst,
  single,
  available,
};

function server(device: DeviceQueue, { burst: count, segments }: TranslationOptions): () => void {
  const elements = device.createElements(count, count * segments);
  const written = writtenBytes(segments);
  return () => {
    const popped = device.popBurst(elements);
    const { words } = elements;
    for (let i = 0; i < popped; i++) words[i * 4 + 3] = written;
    device.pushBurst(elements);
    if (popped !== count) throw new Error(`${popped} of ${count} buffers arrived`);
  };
}

async function cycle(options: TranslationOptions): Promise<Task> {
  const { ring, size, burst: count, segments, translation } = options;
  const engine = await loadEngine({ engine: options.engine });
  const features = [Feature.VERSION_1, Feature.EVENT_IDX, Feature.INDIRECT_DESC];
  if (ring === 'packed') features.push(Feature.RING_PACKED);
  const driver = engine.driverQueue({ ring, size, features });
  const device = engine.deviceQueue({ ring, size, features, areas: driver.areas, translation });
  const buffers = engine.alloc(size * segments * SEGMENT_BYTES, 64);
  const burst = driver.createBurst(count, count * segments);
  const completions = driver.createCompletions(count);
  const serve = server(device, options);
  const outs = outSegments(segments);
  const cycles = Math.ceil(BATCH / count);
  let next = 0;
  return {
    buffers: cycles * count,
    batch() {
      for (let c = 0; c < cycles; c++) {
        for (let i = 0; i < count; i++) {
          let address = buffers + next * segments * SEGMENT_BYTES;
          for (let s = 0; s < segments; s++) {
            if (s < outs) burst.out(address, SEGMENT_BYTES);
            else burst.in(address, SEGMENT_BYTES);
            address += SEGMENT_BYTES;
          }
          burst.end(next);
          next = (next + 1) % size;
        }
        driver.addBurst(burst);
        driver.kickPrepare();
        serve();
        const got = driver.getBurst(completions);
        if (got !== count) throw new Error(`${got} of ${count} buffers came back`);
      }
    },
  };
}

async function burst(options: TranslationOptions): Promise<Task> {
  const { burst: count } = options;
  const { device, offer } = await createPeer(options);
  const serve = server(device, options);
  const cycles = Math.ceil(BATCH / count);
  return {
    buffers: cycles * count,
    batch() {
      for (let c = 0; c < cycles; c++) {
        offer(count);
        serve();
      }
    },
  };
}

async function single(options: TranslationOptions): Promise<Task> {
  const { burst: count, segments } = options;
  const { device, offer } = await createPeer(options);
  const written = writtenBytes(segments);
  const cycles = Math.ceil(BATCH / count);
  return {
    buffers: cycles * count,
    batch() {
      for (let c = 0; c < cycles; c++) {
        offer(count);
        for (let i = 0; i < count; i++) {
          const element = device.pop();
          if (element === undefined) throw new Error(`${i} of ${count} buffers arrived`);
          device.push(element, written);
        }
      }
    },
  };
}

async function available(options: TranslationOptions): Promise<Task> {
  const { burst: count, segments } = options;
  const { device, offer } = await createPeer(options);
  offer(count);
  const cycles = Math.ceil(BATCH / count);
  const bytes = count * segments * SEGMENT_BYTES;
  return {
    buffers: cycles * count,
    batch() {
      for (let c = 0; c < cycles; c++) {
        const sum = device.availableBytes(bytes, bytes);
        if (sum.in + sum.out !== bytes)
          throw new Error(`${sum.in + sum.out} of ${bytes} bytes are available`);
      }
    },
  };
}
