import type { DeviceState, DriverState } from '../../src/index.js';
import type { Random } from './prng.js';

type State = DriverState | DeviceState;

/** A plain object in which something may be changed, and its key. */
type Spot = [holder: Record<string, unknown>, key: string];

/** Where memory lies is the business of whoever restores: all else may be anything. */
const KEPT = new Set(['areas', 'tables', 'counts', 'table', 'token']);

function spots(value: object, found: Spot[]): Spot[] {
  for (const key of Object.keys(value)) {
    if (KEPT.has(key)) continue;
    const holder = value as Record<string, unknown>;
    found.push([holder, key]);
    const inner = holder[key];
    if (typeof inner === 'object' && inner !== null) spots(inner, found);
  }
  return found;
}

const ODD = [-1, 0, 1, 2, 0x7fff, 0x8000, 0x8001, 0xffff, 0x10000, 2 ** 32 - 1, 2 ** 32, 0.5, Number.NaN];

/** The state with one or two values changed. */
export function forge(state: State, random: Random): State {
  const copy = structuredClone(state);
  for (let n = random.once(3) ? 2 : 1; n > 0; n--) {
    const [holder, key] = random.pick(spots(copy, []));
    const value = holder[key];
    if (Array.isArray(value) && random.once(2)) {
      const [i, j] = [random.below(value.length + 1), random.below(value.length + 1)];
      if (random.once(2)) value.splice(i, 1);
      else [value[i], value[j]] = [structuredClone(value[j]), value[i]];
    } else if (typeof value === 'number' && random.once(2)) holder[key] = value + random.pick([-1, 1, 2]);
    else holder[key] = random.once(8) ? random.pick([null, undefined, 'x', [], {}]) : random.pick(ODD);
  }
  return copy;
}
