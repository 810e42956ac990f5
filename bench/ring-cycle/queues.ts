import { type DeviceQueue, type DriverQueue, Feature, type Host, loadEngine } from '../../src/index.js';
import { type CycleOptions, SEGMENT_BYTES } from './options.js';

export interface Queues {
  engine: Host;
  driver: DriverQueue;
  device: DeviceQueue;
  /** Address of the first of as many buffers as the ring has descriptors. */
  buffers: number;
  /** Notifications, of both kinds, that were sent. */
  calls: { count: number };
}

/** Both sides of a queue, with callbacks as a transport has them. */
export async function createQueues(name: 'wasm' | 'typescript', options: CycleOptions): Promise<Queues> {
  const { size, eventIdx, segments } = options;
  const engine = await loadEngine({ engine: name });
  // Chains are direct: what an indirect table costs is a suite of its own.
  const features = [Feature.VERSION_1, ...(eventIdx ? [Feature.EVENT_IDX] : [])];
  const calls = { count: 0 };
  const call = () => {
    calls.count++;
  };
  const driver = engine.driverQueue({ ring: 'split', size, features, notify: call });
  const device = engine.deviceQueue({ ring: 'split', size, features, areas: driver.areas, interrupt: call });
  const buffers = engine.alloc(size * segments * SEGMENT_BYTES, 64);
  return { engine, driver, device, buffers, calls };
}
