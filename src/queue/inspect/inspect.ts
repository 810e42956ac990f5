// Puts an inspection together: what the engine remembers (the same plain data as in a saved state) beside what
// stands in memory. Works on a broken queue and on any bytes.

import * as L from '../../../assembly/abi/layout.js';
import type { DeviceRingState, DriverRingState, TranslationStrategy } from '../../engine/engine.js';
import type { Regions } from '../../engine/regions.js';
import type { Fault } from '../../errors.js';
import type { QueueStats } from '../../stats.js';
import { deviceReach, driverReach, hex, ringBytes } from './bytes.js';
import { type PackedDeviceView, packedDevice } from './packed-device.js';
import { type PackedDriverView, packedDriver } from './packed-driver.js';
import { type Shape, sideView } from './side.js';
import { type SplitDeviceView, splitDevice } from './split-device.js';
import { type SplitDriverView, splitDriver } from './split-driver.js';
import { Translation } from './translation.js';

/** Memory that a driver's indirect tables are taken from, and how many bytes of it tables in flight take. */
export interface TableMemoryView {
  tables: { address: string; length: number; inUse: number };
}

/** What `driver.inspect()` tells: plain data, ready for JSON, addresses as `0x…`. */
export type DriverInspection = (SplitDriverView | PackedDriverView) & TableMemoryView;
/** What `device.inspect()` tells: plain data, ready for JSON, addresses as `0x…`. */
export type DeviceInspection = SplitDeviceView | PackedDeviceView;

/** Whatever is known of a queue beside its ring. */
export interface Known {
  fault?: Fault | undefined;
  stats: QueueStats;
}

/** @param buffer the memory that the areas lie in; if absent, what the driver remembers is all there is */
export function inspectDriver(
  state: DriverRingState,
  shape: Shape & { tables: { address: number; length: number } },
  known: Known,
  buffer?: ArrayBufferLike,
): DriverInspection {
  const { ring, size, areas, tables } = shape;
  const memory = buffer && {
    ring: ringBytes(buffer, areas, ring, size),
    reach: driverReach(buffer, tables),
  };
  const problems: string[] = [];
  const head = sideView('driver', shape, known.fault, known.stats, problems);
  const inUse = state.buffers.reduce(
    (sum, { table, segments }) => sum + (table && segments * L.DESC_BYTES),
    0,
  );
  const tableMemory = { tables: { address: hex(tables.address), length: tables.length, inUse } };
  return ring === 'split'
    ? { ...head, ...tableMemory, ...splitDriver(state, shape, memory, problems) }
    : { ...head, ...tableMemory, ...packedDriver(state, shape, memory, problems) };
}

/** @param buffer the memory that the areas lie in; if absent, what the device remembers is all there is */
export function inspectDevice(
  state: DeviceRingState,
  shape: Shape,
  known: Known,
  at?: { buffer: ArrayBufferLike; regions: Regions; translation?: TranslationStrategy },
): DeviceInspection {
  const { ring, size, areas } = shape;
  const memory = at && {
    ring: ringBytes(at.buffer, areas, ring, size),
    reach: deviceReach(at.buffer, new Translation(at.regions, at.translation ?? 'lazy')),
  };
  const problems: string[] = [];
  const head = sideView('device', shape, known.fault, known.stats, problems);
  // Where nobody knows whether tables were negotiated, they are looked at.
  const options = { size, indirect: shape.indirect !== false };
  return ring === 'split'
    ? { ...head, ...splitDevice(state, options, memory, problems) }
    : { ...head, ...packedDevice(state, options, memory, problems) };
}
