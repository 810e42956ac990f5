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
  const { ring, size, eventIdx, inOrder, segments } = options;
  const engine = await loadEngine({ engine: name });
  // Chains are direct: what an indirect table costs is a suite of its own.
  const features = [Feature.VERSION_1];
  if (ring === 'packed') features.push(Feature.RING_PACKED);
  if (eventIdx) features.push(Feature.EVENT_IDX);
  if (inOrder) features.push(Feature.IN_ORDER);
  const calls = { count: 0 };
  const call = () => {
    calls.count++;
  };
  const driver = engine.driverQueue({ ring, size, features, notify: call });
  const device = engine.deviceQueue({ ring, size, features, areas: driver.areas, interrupt: call });
  const buffers = engine.alloc(size * segments * SEGMENT_BYTES, 64);
  return { engine, driver, device, buffers, calls };
}
