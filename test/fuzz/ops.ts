import type { Config } from './config.js';
import type { Random } from './prng.js';

/** What the queues are asked to do, with how often. */
const DRIVER = {
  add: 10,
  burst: 12,
  append: 3,
  addBurst: 3,
  clearBurst: 1,
  getBuf: 8,
  getBurst: 12,
  kick: 5,
  moreUsed: 2,
  disableCallbacks: 2,
  enableCallbacks: 3,
  enableCallbacksPrepare: 2,
  poll: 3,
  enableCallbacksDelayed: 3,
  setTables: 1,
  trimTables: 1,
  saveDriver: 1,
};

const DEVICE = {
  pop: 8,
  popBurst: 14,
  push: 8,
  pushBurst: 10,
  fill: 6,
  flush: 5,
  unpop: 1,
  rewind: 3,
  detach: 1,
  availableBytes: 3,
  shouldInterrupt: 3,
  enableNotifications: 3,
  disableNotifications: 2,
  setRegions: 1,
  saveDevice: 1,
};

/** What the peer does. */
const PEER = {
  mutate: 12,
  forgeAvail: 6,
  forgeUsed: 6,
  copy: 1,
  noise: 1,
  arm: 2,
};

/** What happens to both sides at once. */
const BOTH = { reset: 10, recover: 4, resize: 3, jump: 3, forgeState: 3, detachUnused: 1 };

export type Kind = keyof typeof DRIVER | keyof typeof DEVICE | keyof typeof PEER | keyof typeof BOTH;

/** An operation by name, and a seed that chooses what it is done to. */
export type Op = [kind: Kind, seed: number];

/** True for what a queue does, as against its peer. */
export const isQueueKind = (kind: Kind): boolean => !(kind in PEER);

type Weights = Partial<Record<Kind, number>>;

/** A list to draw from in which each kind stands as often as it weighs. */
const expand = (weights: Weights): Kind[] =>
  Object.entries(weights).flatMap(([kind, weight]) => Array.from({ length: weight }, () => kind as Kind));

const BAG = { driver: expand(DRIVER), device: expand(DEVICE), peer: expand(PEER), both: expand(BOTH) };
const RAW = {
  driver: expand({ mutate: 10, forgeUsed: 20, copy: 1, noise: 1, arm: 2 }),
  device: expand({ mutate: 10, forgeAvail: 20, copy: 1, noise: 1, arm: 2 }),
};

/** The operations of a scenario. */
export function chooseOps({ victim, raw, hostility }: Config, random: Random): Op[] {
  const ops: Op[] = [];
  const count = 10 + random.below(random.once(4) ? 400 : 120);
  const attack = raw && victim !== 'both' ? RAW[victim] : BAG.peer;
  const rate = raw ? Math.max(30, hostility) : hostility;
  for (let i = 0; i < count; i++) {
    const r = random.below(100);
    let bag: Kind[];
    if (r < rate) bag = attack;
    else if (random.once(50)) bag = BAG.both;
    else if (raw) bag = victim === 'driver' ? BAG.driver : BAG.device;
    else bag = random.once(2) ? BAG.driver : BAG.device;
    ops.push([random.pick(bag), random.u32()]);
  }
  return ops;
}
