import { expect } from 'chai';
import {
  type DeviceQueue,
  type DriverQueue,
  type DriverState,
  type Element,
  Feature,
  type Host,
} from '../../src/index.js';
import { ENGINES, type EngineName, forEachEngine, loader } from '../support/engines.js';
import { refused } from '../support/stage.js';

const FEATURES = [Feature.VERSION_1, Feature.EVENT_IDX, Feature.INDIRECT_DESC];
const ARENA = 2 ** 17;

const throughJson = <T>(value: T): T => JSON.parse(JSON.stringify(value));

/** Several engines on one memory: a queue can move from one to the other. */
class Hosts {
  private readonly hosts: Host[] = [];

  private constructor(readonly memory: WebAssembly.Memory) {}

  static async create(engines: readonly EngineName[]): Promise<Hosts> {
    const memory = new WebAssembly.Memory({ initial: (engines.length * ARENA) / 65536 + 1 });
    const all = new Hosts(memory);
    for (const [i, engine] of engines.entries())
      all.hosts.push(await loader(engine)({ memory, base: 65536 + i * ARENA, size: ARENA }));
    return all;
  }

  get(i: number): Host {
    return this.hosts[i];
  }
}

describe('case 30: queues that are saved and restored', () => {
  forEachEngine((_load, engine) => {
    const other = ENGINES.find((name) => name !== engine) as EngineName;
    for (const ring of ['split', 'packed'] as const)
      for (const inOrder of [false, true])
        describe(`${ring} ring${inOrder ? ' in order' : ''}`, () => {
          const features = inOrder ? [...FEATURES, Feature.IN_ORDER] : FEATURES;
          const options = { ring, size: 8, features };
          const areas = { descriptor: 0x100, driver: 0x200, device: 0x300 };
          const tables = { address: 0x1000, length: 0x800 };
          const data = { address: 0x4000, length: 64 };

          let hosts: Hosts;
          beforeEach(async () => {
            hosts = await Hosts.create([engine, engine, other, other]);
          });

          const newDriver = (i: number) =>
            hosts.get(i).driverQueue({ ...options, areas, indirect: { memory: tables } });
          const newDevice = (i: number) => hosts.get(i).deviceQueue({ ...options, areas });

          /** What is done, one after the other; each says what came of it. */
          const script = (): ((driver: DriverQueue, device: DeviceQueue, held: Element[]) => unknown)[] => {
            const add = (n: number, token: number) => (driver: DriverQueue) =>
              driver.add([data], new Array(n).fill(data), token);
            const kick = (driver: DriverQueue) => driver.kickPrepare();
            const pop = (_: DriverQueue, device: DeviceQueue, held: Element[]) => {
              const element = device.pop();
              if (element) held.push(element);
              return element;
            };
            const push = (_: DriverQueue, device: DeviceQueue, held: Element[]) =>
              device.push(held.shift() as Element, 7);
            const interrupt = (_: DriverQueue, device: DeviceQueue) => device.shouldInterrupt();
            const get = (driver: DriverQueue) => driver.getBuf();
            const sleepDevice = (_: DriverQueue, device: DeviceQueue) => device.enableNotifications();
            const wakeDevice = (_: DriverQueue, device: DeviceQueue) => device.disableNotifications();
            const sleepDriver = (driver: DriverQueue) => driver.enableCallbacks();
            const wakeDriver = (driver: DriverQueue) => driver.disableCallbacks();
            const later = (driver: DriverQueue) => driver.enableCallbacksDelayed();
            const round = [
              wakeDevice,
              wakeDriver,
              sleepDevice,
              add(1, 1),
              add(3, 2),
              kick,
              pop,
              add(1, 3),
              kick,
              pop,
              pop,
              sleepDriver,
              push,
              interrupt,
              push,
              push,
              interrupt,
              get,
              sleepDriver,
              get,
              get,
              sleepDevice,
              kick,
              ...[4, 5, 6, 7].map((token) => add(1, token)),
              kick,
              later,
              ...[4, 5, 6, 7].flatMap(() => [pop, push]),
              interrupt,
              ...[4, 5, 6, 7].map(() => get),
              get,
              interrupt,
              pop,
            ];
            // The second time across the end of the ring.
            return [...round, ...round];
          };

          /** Runs the script; before step `at` one side or both move to the hosts given. */
          const run = (at: number, to?: { driver?: number; device?: number }): string[] => {
            new Uint8Array(hosts.memory.buffer).fill(0x5a, 0, 65536);
            let driver = newDriver(0);
            let device = newDevice(1);
            const held: Element[] = [];
            const outcomes = script().map((step, i) => {
              if (i === at && to?.driver !== undefined) {
                const state = throughJson(driver.save());
                driver.release();
                driver = newDriver(to.driver);
                driver.restore(state);
              }
              if (i === at && to?.device !== undefined) {
                const state = throughJson(device.save());
                device.release();
                device = newDevice(to.device);
                device.restore(state);
              }
              return JSON.stringify(step(driver, device, held)) ?? 'nothing';
            });
            // A restored queue has a cache of its own.
            const counts = { ...driver.stats(), tables: undefined };
            outcomes.push(JSON.stringify([counts, device.stats(), driver.numFree, driver.inFlight]));
            driver.release();
            device.release();
            for (let i = 0; i < 4; i++) expect(hosts.get(i).used).to.equal(0);
            return outcomes;
          };

          it('lose no kick and no interrupt, whenever that is', () => {
            const expected = run(-1);
            // It is about something: some are sent, some are suppressed.
            expect(expected).to.include.members(['true', 'false']);
            for (let at = 0; at < expected.length; at++) {
              expect(run(at, { driver: 0 }), `driver, before step ${at}`).to.deep.equal(expected);
              expect(run(at, { device: 1 }), `device, before step ${at}`).to.deep.equal(expected);
              const both = { driver: 2, device: 3 };
              expect(run(at, both), `both, before step ${at}, to ${other}`).to.deep.equal(expected);
            }
          });

          it('work when they have not been used at all', () => {
            for (const to of [0, 2]) {
              const driver = newDriver(0);
              const device = newDevice(1);
              const states = throughJson([driver.save(), device.save()]) as never[];
              driver.release();
              device.release();
              const [moved, taken] = [newDriver(to), newDevice(to + 1)];
              moved.restore(states[0]);
              taken.restore(states[1]);
              expect(moved.add([data], [data], 3)).to.equal(true);
              expect(moved.kickPrepare()).to.equal(true);
              taken.push(taken.pop() as Element, 5);
              expect(taken.shouldInterrupt()).to.equal(true);
              expect(moved.getBuf()).to.deep.equal({ token: 3, length: 5 });
              moved.release();
              taken.release();
            }
          });

          it('can be restored where they are, also into what lay there before', () => {
            new Uint8Array(hosts.memory.buffer).fill(0x5a, 0, 0x400);
            const driver = newDriver(0);
            const device = newDevice(1);
            // Nothing was done yet: the bytes from before do not come back.
            driver.restore(throughJson(driver.save()));
            device.restore(throughJson(device.save()));
            for (let token = 0; token < 20; token++) {
              expect(driver.add([], [data], token)).to.equal(true);
              driver.restore(throughJson(driver.save()));
              const element = device.pop() as Element;
              device.restore(throughJson(device.save()));
              device.push(element, token);
              driver.restore(throughJson(driver.save()));
              expect(driver.getBuf()).to.deep.equal({ token, length: token });
            }
          });

          it('know what was detached', () => {
            /** What comes back where the elements with a bit in `gone` were detached. */
            const outcome = (gone: number, moved: boolean) => {
              const driver = hosts.get(0).driverQueue({ ...options, areas, indirect: { policy: 'never' } });
              let device = newDevice(1);
              // Chains of one and of two slots.
              for (const [token, n] of [1, 2, 1, 2].entries())
                expect(driver.add([], new Array(n).fill(data), token)).to.equal(true);
              const held = [0, 1, 2, 3].map(() => device.pop() as Element);
              for (const i of [2, 0, 1, 3]) if ((gone >> i) & 1) device.detach(held[i]);
              if (moved) {
                const state = throughJson(device.save());
                device.release();
                device = newDevice(3);
                device.restore(state);
              }
              const got: unknown[] = [device.inFlight];
              for (const i of [1, 0, 3, 2])
                if (!((gone >> i) & 1)) {
                  device.push(held[i], 5);
                  for (let back = driver.getBuf(); back; back = driver.getBuf()) got.push(back.token);
                  got.push(device.inFlight);
                }
              got.push(driver.add([], [data, data], 9), driver.numFree, device.pop());
              device.release();
              driver.release();
              return JSON.stringify(got);
            };
            for (let gone = 0; gone < 16; gone++)
              expect(outcome(gone, true), `detached: ${gone.toString(2)}`).to.equal(outcome(gone, false));
          });

          it('case 32: tokens come back once, tables are released once', () => {
            const driver = newDriver(0);
            for (const token of [1, 2, 3]) expect(driver.add([data], [data], token)).to.equal(true);
            const state = throughJson(driver.save());
            driver.release();
            const moved = newDriver(2);
            moved.restore(state);
            expect([moved.inFlight, moved.tableBytes]).to.deep.equal([3, 96]);
            expect(moved.reset()).to.have.members([1, 2, 3]);
            expect([moved.inFlight, moved.tableBytes, moved.numFree]).to.deep.equal([0, 0, 8]);
            expect(moved.reset()).to.deep.equal([]);
            // All of the table memory is there.
            for (let i = 0; i < 8; i++) expect(moved.add([data], new Array(7).fill(data), i)).to.equal(true);
            expect([moved.tableBytes, moved.numFree]).to.deep.equal([8 * 8 * 16, 0]);
            moved.release();
          });

          it('of another version, or without a field that this version has, are refused, with the name of the field', () => {
            const driver = newDriver(0);
            const device = newDevice(1);
            driver.add([data], [data, data], 1);
            driver.add([data], [], 2);
            driver.add([data], [], 3);
            const popped = [device.pop(), device.pop()];
            if (!inOrder) device.fill(popped[0] as Element, 0, 1);
            const queues = [driver, device] as { save(): object; restore(state: unknown): void }[];
            for (const queue of queues) {
              const state = throughJson(queue.save());
              const before = JSON.stringify(state);
              let fields = 0;
              /** Leaves each field out, and those of what it holds. */
              const without = (holder: Record<string, unknown>, path: string) => {
                for (const key of Object.keys(holder)) {
                  const name = Array.isArray(holder)
                    ? `${path}[${key}]`
                    : path === ''
                      ? key
                      : `${path}.${key}`;
                  const value = holder[key];
                  if (!Array.isArray(holder)) {
                    fields++;
                    delete holder[key];
                    const missing =
                      key === 'version' ? 'version must be 1, got undefined' : `${name} is missing`;
                    refused(() => queue.restore(state), 'EINVAL', `: ${missing}; save the queue with`);
                    holder[key] = value;
                  }
                  if (typeof value === 'object') without(value as Record<string, unknown>, name);
                }
              };
              without(state as Record<string, unknown>, '');
              expect(fields).to.be.above(20);
              // Counters that came later are missing in the same way.
              const { counts } = state as { counts: number[] };
              const some = { ...state, counts: counts.slice(0, -1) };
              refused(
                () => queue.restore(some),
                'EINVAL',
                'counts has',
                counts.length - 1,
                'save the queue with',
              );
              for (const version of [0, 2, '1', null, 1.5])
                refused(
                  () => queue.restore({ ...state, version }),
                  'EINVAL',
                  `version must be 1, got ${JSON.stringify(version)}; save the queue with`,
                );
              expect(JSON.stringify({ ...queue.save(), counts })).to.equal(before);
              queue.restore(state);
            }
          });

          it('that are of another kind are refused, and nothing has changed', () => {
            const driver = newDriver(0);
            const device = newDevice(1);
            driver.add([data], [data], 1);
            device.pop();
            const bytes = new Uint8Array(hosts.memory.buffer).slice(0, 65536);
            const before = JSON.stringify([driver.save(), device.save()]);
            const used = [0, 1].map((i) => hosts.get(i).used);
            const good = driver.save();
            const odd: [unknown, string][] = [
              [undefined, 'it must be an object'],
              [null, 'it must be an object'],
              [[], 'it must be an object'],
              ['{}', 'it must be an object'],
              [{}, 'version'],
              [device.save(), 'it is of a "device" queue, this is a driver queue'],
              [{ ...good, version: 2 }, 'version'],
              [{ ...good, ring: ring === 'split' ? 'packed' : 'split' }, 'ring'],
              [{ ...good, size: 16 }, 'size'],
              [{ ...good, inOrder: !inOrder }, 'inOrder'],
              [{ ...good, eventIdx: false }, 'eventIdx'],
            ];
            for (const [state, text] of odd)
              refused(() => driver.restore(state as DriverState), 'EINVAL', 'saved state', text);
            refused(() => device.restore(good as never), 'EINVAL', 'saved state', 'driver');
            expect(JSON.stringify([driver.save(), device.save()])).to.equal(before);
            expect(Buffer.compare(new Uint8Array(hosts.memory.buffer).slice(0, 65536), bytes)).to.equal(0);
            expect([0, 1].map((i) => hosts.get(i).used)).to.deep.equal(used);
            expect(driver.stats().errors.EINVAL).to.equal(odd.length);
          });
        });
  });
});
