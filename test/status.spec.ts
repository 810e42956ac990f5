import { expect } from 'chai';
import fc from 'fast-check';
import { VringError } from '../src/errors.js';
import { Feature } from '../src/features.js';
import { Negotiation } from '../src/negotiation.js';
import { DeviceStatus, describeStatus, Status } from '../src/status.js';

const { ACKNOWLEDGE, DRIVER, DRIVER_OK, FEATURES_OK, SUSPEND, DEVICE_NEEDS_RESET, FAILED } = Status;
const READY = ACKNOWLEDGE | DRIVER | FEATURES_OK;
const RUNNING = READY | DRIVER_OK;
const SUSPENDED = READY | SUSPEND;

const FEATURES = [Feature.VERSION_1, Feature.EVENT_IDX, Feature.SUSPEND];

/** A device that counts its configuration change notifications. */
function createDevice(supports?: (features: ReadonlySet<number>) => boolean) {
  const negotiation = Negotiation.offer(FEATURES);
  const device = { negotiation, notified: 0 };
  const status = new DeviceStatus(negotiation, {
    notifyConfigChange: () => {
      device.notified++;
    },
    ...(supports && { supports }),
  });
  return Object.assign(device, { status });
}

/** Initializes the device as a driver does. */
function initialize(status: DeviceStatus, features: number[] = FEATURES): void {
  status.write(0);
  status.write(ACKNOWLEDGE);
  status.write(ACKNOWLEDGE | DRIVER);
  status.negotiation.accept(features);
  status.write(READY);
  expect(status.value).to.equal(READY);
  status.write(RUNNING);
}

/** A device in use. */
function createRunning(features?: number[]) {
  const device = createDevice();
  initialize(device.status, features);
  return device;
}

/** Asserts that the write throws EINVAL with all of `parts` in the message and changes nothing. */
function refuses(status: DeviceStatus, value: number, ...parts: string[]): void {
  const before = status.value;
  let error: unknown;
  try {
    status.write(value);
  } catch (e) {
    error = e;
  }
  expect(error, `write ${value}`).to.be.instanceOf(VringError);
  const { code, message } = error as VringError;
  expect(code).to.equal('EINVAL');
  for (const part of parts) expect(message).to.include(part);
  expect(message).to.include(status.problem(value) as string);
  expect(status.value).to.equal(before);
}

describe('device status', () => {
  it('has the values of 2.1', () => {
    expect(Object.values(Status).filter((value) => typeof value === 'number')).to.have.members([
      1, 2, 4, 8, 16, 64, 128,
    ]);
    expect([ACKNOWLEDGE, DRIVER, DRIVER_OK, FEATURES_OK]).to.deep.equal([1, 2, 4, 8]);
    expect([SUSPEND, DEVICE_NEEDS_RESET, FAILED]).to.deep.equal([16, 64, 128]);
    expect(describeStatus(0)).to.equal('0');
    expect(describeStatus(0xa1)).to.equal('ACKNOWLEDGE|bit 32|FAILED (161)');
  });

  it('goes through the steps of the initialization [status-driver-steps]', () => {
    const { status } = createDevice();
    const seen = [status.value];
    for (const bit of [ACKNOWLEDGE, DRIVER]) {
      status.write(status.value | bit);
      seen.push(status.value);
    }
    status.negotiation.accept(FEATURES);
    for (const bit of [FEATURES_OK, DRIVER_OK]) {
      expect(status.live).to.equal(false);
      status.write(status.value | bit);
      seen.push(status.value);
    }
    expect(seen).to.deep.equal([0, 1, 3, 11, 15]);
    expect(status.live).to.equal(true);
    expect([...status.negotiation.negotiated]).to.deep.equal([29, 32, 43]);
  });

  it('takes the steps in their order only [init-driver-sequence]', () => {
    const { status } = createDevice();
    refuses(status, DRIVER, 'DRIVER (2) before ACKNOWLEDGE (1)');
    refuses(status, ACKNOWLEDGE | FEATURES_OK, 'FEATURES_OK (8) before DRIVER (2)');
    refuses(status, ACKNOWLEDGE | DRIVER | FEATURES_OK, 'FEATURES_OK (8) before DRIVER (2)');
    refuses(status, DRIVER_OK, 'DRIVER_OK (4) before FEATURES_OK (8)');
    status.write(ACKNOWLEDGE);
    refuses(status, ACKNOWLEDGE | FEATURES_OK, 'FEATURES_OK (8) before DRIVER (2)');
    refuses(status, ACKNOWLEDGE | DRIVER_OK, 'DRIVER_OK (4) before FEATURES_OK (8)');
    status.write(ACKNOWLEDGE | DRIVER);
    refuses(status, ACKNOWLEDGE | DRIVER | DRIVER_OK, 'DRIVER_OK (4) before FEATURES_OK (8)', 'read it back');
    status.negotiation.accept(FEATURES);
    // Both at once: the driver cannot have read FEATURES_OK back.
    refuses(status, RUNNING, 'DRIVER_OK (4) before FEATURES_OK (8)');
    expect(status.negotiation.state).to.equal('open');
    status.write(READY);
    status.write(RUNNING);
    expect(status.value).to.equal(RUNNING);
  });

  it('takes ACKNOWLEDGE and DRIVER in one write', () => {
    const { status } = createDevice();
    status.write(ACKNOWLEDGE | DRIVER);
    expect(status.value).to.equal(3);
  });

  it('never clears a bit for the driver [status-driver-no-clear]', () => {
    const { status } = createRunning();
    for (const bit of [ACKNOWLEDGE, DRIVER, FEATURES_OK, DRIVER_OK]) {
      refuses(status, RUNNING & ~bit, `clears ${describeStatus(bit)}`, 'write 0 to reset');
    }
    status.suspend();
    status.suspended();
    refuses(status, READY | DRIVER_OK, 'clears SUSPEND (16)');
    status.needsReset();
    // A driver that has not seen DEVICE_NEEDS_RESET clears nothing.
    status.write(SUSPENDED);
    expect(status.value).to.equal(SUSPENDED | DEVICE_NEEDS_RESET);
    status.write(SUSPENDED | DEVICE_NEEDS_RESET | FAILED);
    refuses(status, SUSPENDED | DEVICE_NEEDS_RESET, 'clears FAILED (128)');
  });

  it('refuses what is no status', () => {
    const { status } = createDevice();
    for (const value of [-1, 256, 1.5, Number.NaN, '1' as unknown as number]) refuses(status, value, 'byte');
    refuses(status, ACKNOWLEDGE | 32, 'bit 32', 'leave it out');
    refuses(status, ACKNOWLEDGE | DEVICE_NEEDS_RESET, 'DEVICE_NEEDS_RESET (64)', 'for the device');
  });

  it('after FAILED takes a reset only [status-driver-failed]', () => {
    const { status } = createDevice();
    status.write(ACKNOWLEDGE);
    status.write(ACKNOWLEDGE | FAILED);
    refuses(status, ACKNOWLEDGE | DRIVER | FAILED, 'DRIVER (2) after FAILED', 'write 0 to reset first');
    status.write(ACKNOWLEDGE | FAILED);
    initialize(status);
    expect(status.value).to.equal(RUNNING);
  });

  it('lets a driver give up at every step [init-driver-failed] [feature-driver-gives-up]', () => {
    for (const steps of [0, 1, 2, 3, 4]) {
      const { status } = createDevice();
      const bits = [ACKNOWLEDGE, DRIVER, FEATURES_OK, DRIVER_OK].slice(0, steps);
      status.negotiation.accept(FEATURES);
      for (const bit of bits) status.write(status.value | bit);
      const before = status.value;
      status.write(before | FAILED);
      expect(status.value).to.equal(before | FAILED);
      expect(status.live).to.equal(false);
    }
  });

  it('does not go on after a step that failed [init-driver-ceases]', () => {
    const { status } = createDevice(() => false);
    status.write(ACKNOWLEDGE | DRIVER);
    status.negotiation.accept(FEATURES);
    status.write(READY);
    expect(status.value).to.equal(ACKNOWLEDGE | DRIVER);
    refuses(status, ACKNOWLEDGE | DRIVER | DRIVER_OK, 'DRIVER_OK (4) before FEATURES_OK (8)');
    refuses(status, READY, 'the device refused these features', 'write 0 to reset');
    status.write(ACKNOWLEDGE | DRIVER | FAILED);
    refuses(status, READY | FAILED, 'after FAILED');
    expect(status.live).to.equal(false);
  });

  it('leaves FEATURES_OK unset for a set that the device does not take [feature-device-refuses]', () => {
    const { status, negotiation } = createDevice((features) => !features.has(Feature.EVENT_IDX));
    status.write(ACKNOWLEDGE | DRIVER);
    negotiation.accept(FEATURES);
    status.write(READY);
    expect(status.value).to.equal(ACKNOWLEDGE | DRIVER);
    expect(negotiation.refusal).to.include('EVENT_IDX (29)');
    expect(negotiation.has(Feature.EVENT_IDX)).to.equal(false);
    // Only a reset opens the negotiation again.
    expect(() => negotiation.accept([Feature.VERSION_1])).to.throw(VringError, 'reset');
    initialize(status, [Feature.VERSION_1]);
    expect(status.live).to.equal(true);
  });

  it('leaves FEATURES_OK unset for a set that breaks the rules [feature-device-refuses]', () => {
    for (const features of [[], [Feature.EVENT_IDX], [Feature.VERSION_1, Feature.RING_PACKED]]) {
      const { status, negotiation } = createDevice();
      status.write(ACKNOWLEDGE | DRIVER);
      negotiation.acceptUnchecked(features);
      status.write(READY);
      expect(status.value).to.equal(ACKNOWLEDGE | DRIVER);
    }
  });

  it('negotiates the same set again after a reset [feature-device-again]', () => {
    const { status, negotiation } = createRunning();
    for (let i = 0; i < 3; i++) {
      status.write(0);
      expect([...negotiation.accepted]).to.deep.equal([]);
      expect(negotiation.has(Feature.EVENT_IDX)).to.equal(false);
      initialize(status);
      expect([...negotiation.negotiated]).to.deep.equal([29, 32, 43]);
    }
    // A different set as well.
    initialize(status, [Feature.VERSION_1]);
    expect([...negotiation.negotiated]).to.deep.equal([32]);
  });

  it('becomes 0 on a reset, from every state [reset-device-status] [reset-driver-complete]', () => {
    const reach: ((device: ReturnType<typeof createDevice>) => void)[] = [
      () => {},
      ({ status }) => status.write(ACKNOWLEDGE),
      ({ status }) => initialize(status),
      ({ status }) => {
        initialize(status);
        status.suspend();
      },
      ({ status }) => {
        initialize(status);
        status.suspend();
        status.suspended();
      },
      ({ status }) => {
        initialize(status);
        status.suspend();
        status.suspended();
        status.resume();
      },
      ({ status }) => {
        initialize(status);
        status.needsReset();
      },
      ({ status }) => {
        status.write(ACKNOWLEDGE);
        status.write(ACKNOWLEDGE | FAILED);
      },
    ];
    for (const get of reach) {
      const device = createDevice();
      get(device);
      device.status.write(0);
      const { value, live, suspending, resuming, negotiation } = device.status;
      expect({ value, live, suspending, resuming, state: negotiation.state }).to.deep.equal({
        value: 0,
        live: false,
        suspending: false,
        resuming: false,
        state: 'open',
      });
      initialize(device.status);
      expect(device.status.value).to.equal(RUNNING);
    }
  });

  it('tells the driver of DEVICE_NEEDS_RESET if DRIVER_OK is set [status-device-needs-reset-notifies]', () => {
    const device = createRunning();
    device.status.needsReset();
    expect(device.status.value).to.equal(RUNNING | DEVICE_NEEDS_RESET);
    expect(device.notified).to.equal(1);
    device.status.needsReset();
    expect(device.notified).to.equal(1);
  });

  it('tells nobody of DEVICE_NEEDS_RESET before DRIVER_OK', () => {
    const device = createDevice();
    device.status.write(ACKNOWLEDGE | DRIVER);
    device.status.needsReset();
    expect(device.status.value).to.equal(ACKNOWLEDGE | DRIVER | DEVICE_NEEDS_RESET);
    expect(device.notified).to.equal(0);
  });

  it('is not live while DEVICE_NEEDS_RESET is set [status-driver-needs-reset]', () => {
    const { status } = createRunning();
    status.needsReset();
    expect(status.live).to.equal(false);
    status.write(status.value);
    expect(status.live).to.equal(false);
    initialize(status);
    expect(status.live).to.equal(true);
  });

  it('tells of a configuration change at once while it runs, and after DRIVER_OK otherwise', () => {
    const device = createDevice();
    device.status.write(ACKNOWLEDGE);
    device.status.configChanged();
    expect(device.notified).to.equal(0);
    device.status.write(ACKNOWLEDGE | DRIVER);
    device.negotiation.accept(FEATURES);
    device.status.write(READY);
    expect(device.notified).to.equal(0);
    device.status.write(RUNNING);
    expect(device.notified).to.equal(1);
    device.status.configChanged();
    expect(device.notified).to.equal(2);
  });

  it('forgets a configuration change on a reset', () => {
    const device = createDevice();
    device.status.write(ACKNOWLEDGE);
    device.status.configChanged();
    initialize(device.status);
    expect(device.notified).to.equal(0);
  });

  describe('suspend', () => {
    it('shows SUSPEND without DRIVER_OK once the device stands still [suspend-driver-verifies]', () => {
      const { status } = createRunning();
      status.write(RUNNING | SUSPEND);
      expect(status.value).to.equal(RUNNING);
      expect(status.suspending).to.equal(true);
      status.suspended();
      expect(status.value).to.equal(SUSPENDED);
      expect(status.suspending).to.equal(false);
      expect(status.live).to.equal(false);
    });

    it('lets the device finish what it has begun [suspend-device-drains]', () => {
      const { status } = createRunning();
      status.suspend();
      // Live until the device itself says that it is done: it may still use buffers and notify.
      expect(status.live).to.equal(true);
      expect(status.suspending).to.equal(true);
      expect(status.has(SUSPEND)).to.equal(false);
      status.suspended();
      expect(status.live).to.equal(false);
    });

    it('shows DRIVER_OK without SUSPEND once the device runs again [suspend-driver-waits]', () => {
      const { status } = createRunning();
      status.suspend();
      status.suspended();
      status.write(SUSPENDED | DRIVER_OK);
      expect(status.value).to.equal(SUSPENDED);
      expect(status.resuming).to.equal(true);
      expect(status.live).to.equal(false);
      status.resumed();
      expect(status.value).to.equal(RUNNING);
      expect(status.resuming).to.equal(false);
      expect(status.live).to.equal(true);
      // And once more.
      status.suspend();
      status.suspended();
      status.resume();
      status.resumed();
      expect(status.value).to.equal(RUNNING);
    });

    it('refuses a driver that suspends out of turn [suspend-driver-conditions]', () => {
      const early = createDevice();
      expect(() => early.status.suspend()).to.throw(VringError, 'DRIVER_OK');
      const without = createRunning([Feature.VERSION_1]);
      expect(() => without.status.suspend()).to.throw(VringError, 'SUSPEND (43) is not negotiated');
      expect(without.status.suspending).to.equal(false);
      const broken = createRunning();
      broken.status.needsReset();
      expect(() => broken.status.suspend()).to.throw(VringError, 'DEVICE_NEEDS_RESET');
      const { status } = createRunning();
      expect(() => status.resume()).to.throw(VringError, 'wait until SUSPEND is set');
      status.suspend();
      expect(() => status.resume()).to.throw(VringError, 'wait until SUSPEND is set');
    });

    it('ignores SUSPEND on a device that is not initialized [suspend-device-early]', () => {
      const { status, negotiation } = createDevice();
      negotiation.accept(FEATURES);
      for (const bit of [ACKNOWLEDGE, DRIVER, FEATURES_OK]) {
        status.write(status.value | SUSPEND);
        expect(status.suspending).to.equal(false);
        expect(status.has(SUSPEND)).to.equal(false);
        status.write(status.value | bit | SUSPEND);
        expect(status.has(bit)).to.equal(true);
        expect(status.has(SUSPEND)).to.equal(false);
      }
      status.write(RUNNING | SUSPEND);
      expect(status.value).to.equal(RUNNING);
      expect(status.suspending).to.equal(false);
    });

    it('ignores SUSPEND where it was not negotiated', () => {
      const { status } = createRunning([Feature.VERSION_1, Feature.EVENT_IDX]);
      status.write(RUNNING | SUSPEND);
      expect(status.value).to.equal(RUNNING);
      expect(status.suspending).to.equal(false);
    });

    it('ends in SUSPEND or in DEVICE_NEEDS_RESET [suspend-device-answers]', () => {
      const device = createRunning();
      device.status.suspend();
      device.status.needsReset();
      expect(device.status.value).to.equal(RUNNING | DEVICE_NEEDS_RESET);
      expect(device.status.suspending).to.equal(false);
      expect(device.notified).to.equal(1);
      expect(() => device.status.suspended()).to.throw(VringError, 'did not ask to suspend');
      const other = createRunning();
      other.status.suspend();
      other.status.suspended();
      expect(other.status.has(SUSPEND)).to.equal(true);
    });

    it('ends resuming in DRIVER_OK or in DEVICE_NEEDS_RESET [suspend-device-resumes]', () => {
      const { status } = createRunning();
      status.suspend();
      status.suspended();
      expect(() => status.resumed()).to.throw(VringError, 'did not ask to resume');
      status.resume();
      status.needsReset();
      expect(status.value).to.equal(SUSPENDED | DEVICE_NEEDS_RESET);
      expect(status.resuming).to.equal(false);
      expect(status.live).to.equal(false);
      expect(() => status.resumed()).to.throw(VringError, 'did not ask to resume');
      // A driver that tries again gets no further without a reset.
      status.write(status.value | DRIVER_OK);
      expect(status.resuming).to.equal(false);
      expect(status.has(DRIVER_OK)).to.equal(false);
    });

    it('sends no configuration change notification meanwhile [suspend-device-no-config-notification]', () => {
      const device = createRunning();
      device.status.suspend();
      device.status.suspended();
      device.status.configChanged();
      device.status.configChanged();
      device.status.resume();
      expect(device.notified).to.equal(0);
    });

    it('sends the notification when it resumes, once [suspend-device-late-notification]', () => {
      const device = createRunning();
      device.status.suspend();
      device.status.configChanged();
      expect(device.notified).to.equal(1);
      device.status.suspended();
      device.status.configChanged();
      device.status.configChanged();
      device.status.resume();
      device.status.resumed();
      expect(device.notified).to.equal(2);
      device.status.suspend();
      device.status.suspended();
      device.status.resume();
      device.status.resumed();
      expect(device.notified).to.equal(2);
    });
  });

  it('stays in a legal state whatever the two sides do', () => {
    const byte = fc.integer({ min: 0, max: 255 });
    const action = fc.oneof(
      {
        weight: 10,
        arbitrary: fc
          .constantFrom(ACKNOWLEDGE, DRIVER, FEATURES_OK, DRIVER_OK, SUSPEND)
          .map((bit) => ({ add: bit })),
      },
      { weight: 2, arbitrary: byte.map((write) => ({ write })) },
      { weight: 2, arbitrary: fc.constant({ device: 'suspended' as const }) },
      { weight: 2, arbitrary: fc.constant({ device: 'resumed' as const }) },
      { weight: 1, arbitrary: fc.constant({ device: 'needsReset' as const }) },
      { weight: 1, arbitrary: fc.subarray(FEATURES).map((accept) => ({ accept })) },
    );
    const reached = new Set<number>();
    fc.assert(
      fc.property(fc.array(action, { minLength: 30, maxLength: 60 }), (actions) => {
        const { status, negotiation } = createDevice();
        for (const step of [{ accept: FEATURES }, ...actions]) {
          const before = status.value;
          const problem = 'write' in step ? status.problem(step.write) : undefined;
          let thrown = false;
          try {
            if ('add' in step) status.write(status.value | step.add);
            else if ('write' in step) status.write(step.write);
            else if ('device' in step) status[step.device]();
            else negotiation.acceptUnchecked(step.accept);
          } catch (error) {
            expect(error).to.be.instanceOf(VringError);
            expect(status.value).to.equal(before);
            thrown = true;
          }
          if ('write' in step) expect(thrown).to.equal(problem !== undefined);
          const { value } = status;
          reached.add(value);
          const has = (bit: Status) => (value & bit) !== 0;
          expect(value & 32).to.equal(0);
          if (has(DRIVER)) expect(has(ACKNOWLEDGE)).to.equal(true);
          if (has(FEATURES_OK)) expect(has(DRIVER)).to.equal(true);
          if (has(DRIVER_OK)) expect(has(FEATURES_OK)).to.equal(true);
          if (has(SUSPEND)) {
            expect(has(DRIVER_OK)).to.equal(false);
            expect(negotiation.has(Feature.SUSPEND)).to.equal(true);
          }
          expect(has(FEATURES_OK)).to.equal(negotiation.state === 'complete');
          expect(status.live).to.equal(has(DRIVER_OK) && !has(DEVICE_NEEDS_RESET) && !has(FAILED));
          // The driver alone clears nothing but everything.
          if (!('device' in step)) expect(value === 0 || (before & ~value) === 0).to.equal(true);
        }
      }),
      { numRuns: 300 },
    );
    for (const value of [0, 1, 3, READY, RUNNING, SUSPENDED, RUNNING | DEVICE_NEEDS_RESET]) {
      expect(reached.has(value), describeStatus(value)).to.equal(true);
    }
  });
});
