// A queue that was saved: `queue.save()` as JSON.

import { Regions } from '../../engine/regions.js';
import type { DeviceState, DriverState } from '../../index.js';
import { Feature } from '../../index.js';
import { ADDRESS_SPACE } from '../../memory.js';
import {
  type DeviceInspection,
  type DriverInspection,
  inspectDevice,
  inspectDriver,
} from '../../queue/inspect/inspect.js';
import { checkAreas, checkOptions } from '../../queue/queue.js';
import { checkDeviceState, checkDriverState } from '../../queue/state.js';
import { readStats } from '../../stats.js';

export const isSaved = ({ side }: Record<string, unknown>): boolean => side === 'driver' || side === 'device';

/**
 * @param image the memory that the queue lay in, from its first byte on
 * @throws VringError for a state that contradicts itself
 */
export function inspectSaved(
  json: Record<string, unknown>,
  image: Uint8Array | undefined,
): DriverInspection | DeviceInspection {
  const {
    eventIdx,
    inOrder,
    indirect: _,
    ...checked
  } = checkOptions({
    ring: json.ring as DriverState['ring'],
    size: json.size as number,
    features: [
      ...(json.eventIdx === true ? [Feature.EVENT_IDX] : []),
      ...(json.inOrder === true ? [Feature.IN_ORDER] : []),
    ],
  });
  const bytes = image?.byteLength ?? ADDRESS_SPACE;
  const areas = checkAreas(
    json.areas as DriverState['areas'],
    checked.ring,
    checked.size,
    (address, length) => (Number(address) + length <= bytes ? Number(address) : undefined),
  );
  // A copy, so that offsets in the image are offsets in the buffer.
  const buffer = image && new Uint8Array(image).buffer;
  const common = { ...checked, eventIdx, inOrder, areas };
  if (json.side === 'driver') {
    const state = checkDriverState(json, common, bytes);
    const { tables } = state;
    const shape = { ...common, indirect: tables.length > 0, tables };
    return inspectDriver(state, shape, { stats: statsOf(state) }, buffer);
  }
  const regions = new Regions([{ guest: 0, length: bytes, local: 0 }], bytes);
  const state = checkDeviceState(json, {
    ...common,
    batches: true,
    indirect: true,
    regions,
    translation: 'lazy',
  });
  return inspectDevice(state, common, { stats: statsOf(state) }, buffer && { buffer, regions });
}

const statsOf = ({ side, counts }: DriverState | DeviceState) =>
  readStats({ counter: (index) => counts[index] ?? 0 }, side, new Map());
