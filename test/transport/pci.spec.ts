import { expect } from 'chai';
import fc from 'fast-check';
import { show } from '../../src/errors.js';
import { type ErrorCode, Feature, loadEngine, PciTransport, Status, VringError } from '../../src/index.js';
import { PciDeviceModel, type QueueRegisters, VECTORS } from '../support/pci-device.js';

const FEATURES = [
  Feature.VERSION_1,
  Feature.INDIRECT_DESC,
  Feature.EVENT_IDX,
  Feature.RING_PACKED,
  Feature.RING_RESET,
];
const AREAS = { descriptor: 0x1_2345_6000n, driver: 0x7000, device: 0xffff_ffff_ffff_8000n };
const RUNNING = Status.ACKNOWLEDGE | Status.DRIVER | Status.FEATURES_OK | Status.DRIVER_OK;

/** Sees that `act` is refused with this code and all of these texts in the message. */
async function refused(
  act: () => Promise<unknown>,
  code: ErrorCode,
  ...texts: (string | number)[]
): Promise<void> {
  let result: unknown;
  try {
    result = await act();
  } catch (error) {
    if (!(error instanceof VringError)) throw error;
    expect(error.code, error.message).to.equal(code);
    for (const text of texts) expect(error.message).to.contain(String(text));
    return;
  }
  throw new Error(`resolved to ${String(result)}, a VringError was expected`);
}

const open = (model: PciDeviceModel) => PciTransport.open(model, { polls: 5 });

/** A device that is negotiated and not started. */
async function negotiated(features = FEATURES, queueSizes?: number[]) {
  const model = new PciDeviceModel(features, queueSizes);
  const device = await open(model);
  await device.negotiate(features);
  return { model, device };
}

describe('virtio over PCI', () => {
  it('goes from reset to DRIVER_OK in the order of the specification [pci-driver-enable-last]', async () => {
    const model = new PciDeviceModel(FEATURES);
    const device = await open(model);
    expect(device.deviceId).to.equal(2);
    expect(device.numQueues).to.equal(2);
    expect([...device.negotiation.offered]).to.deep.equal([...FEATURES].sort((a, b) => a - b));
    const set = await device.negotiate([Feature.VERSION_1, Feature.EVENT_IDX, Feature.IN_ORDER]);
    expect([...set]).to.deep.equal([Feature.EVENT_IDX, Feature.VERSION_1]);
    expect(device.live).to.equal(false);
    const queue = await device.queue(1);
    expect(queue.sizeMax).to.equal(256);
    await queue.enable({ size: 64, areas: AREAS, vector: 3 });
    await device.start();
    expect(device.live).to.equal(true);
    expect(await device.readStatus()).to.equal(RUNNING);
    expect([...model.status.negotiation.negotiated]).to.deep.equal([...set]);
    expect(model.queues[1]).to.deep.include({
      size: 64,
      vector: 3,
      enable: 1,
      areas: [AREAS.descriptor, 0x7000n, AREAS.device],
    });
    expect(model.queues[0].enable).to.equal(0);
    const steps = model.written.filter(([name]) => name === 'device_status').map(([, value]) => value);
    expect(steps.filter((value, index) => value !== steps[index - 1])).to.deep.equal([0, 1, 3, 11, 15]);
    const order = model.written.map(([name]) => name);
    expect(order.indexOf('queue_enable')).to.be.above(order.lastIndexOf('queue_device_hi'));
    expect(order.indexOf('queue_enable')).to.be.above(order.lastIndexOf('queue_msix_vector'));
  });

  it('waits until the device has come to the end of a reset [pci-driver-reset-wait]', async () => {
    const { model, device } = await negotiated();
    await device.start();
    model.slowReset = 4;
    await device.reset();
    expect(model.resets).to.equal(2);
    expect(device.live).to.equal(false);
    await device.negotiate(FEATURES);
    await device.start();
    model.slowReset = 5;
    await refused(() => device.reset(), 'EIO', 'device_status', '5 reads');
    expect(device.live).to.equal(false);
  });

  for (const index of [-1, 2, 3, 65535, 65536, 1.5, Number.NaN, '0', undefined])
    it(`case 24: queue index ${show(index)} of two queues is refused`, async () => {
      const { model, device } = await negotiated();
      model.written.length = 0;
      await refused(() => device.queue(index as number), 'EINVAL', `queue ${show(index)}`, 'has 2');
      expect(model.written).to.deep.equal([]);
    });

  it('case 24: a queue that the device does not have is unavailable', async () => {
    const { device } = await negotiated(FEATURES, [256, 0]);
    await refused(() => device.queue(1), 'ENOTSUP', 'queue 1', 'size 0');
    expect((await device.queue(0)).sizeMax).to.equal(256);
  });

  it('refuses a queue setup that is wrong, and the queue can be set up after it [pci-driver-packed-size] [pci-driver-vector-range]', async () => {
    const { model, device } = await negotiated();
    const queue = await device.queue(0);
    const wrong: [object, ErrorCode, string][] = [
      [{ size: 0 }, 'EINVAL', 'size'],
      [{ size: 257 }, 'EINVAL', '256'],
      [{ size: 2.5 }, 'EINVAL', '2.5'],
      [{ vector: VECTORS }, 'EINVAL', 'vector'],
      [{ vector: -1 }, 'EINVAL', 'vector'],
      [{ vector: 0xffff }, 'EINVAL', 'vector'],
      [{ areas: undefined }, 'EINVAL', 'areas.descriptor'],
      [{ areas: { ...AREAS, descriptor: 8 } }, 'EINVAL', 'areas.descriptor'],
      [{ areas: { ...AREAS, driver: 2 } }, 'EINVAL', 'areas.driver'],
      [{ areas: { ...AREAS, device: -4 } }, 'EINVAL', 'areas.device'],
      [{ areas: { ...AREAS, descriptor: 2n ** 64n - 16n } }, 'EINVAL', 'areas.descriptor'],
      [{ areas: { ...AREAS, device: 2n ** 64n } }, 'EINVAL', 'areas.device'],
    ];
    for (const [change, code, text] of wrong) {
      await refused(() => queue.enable({ size: 8, areas: AREAS, ...change }), code, text);
      expect(model.queues[0].enable).to.equal(0);
      await refused(() => queue.notify({ notificationData: () => 0 }), 'EINVAL', 'queue 0 is not enabled');
    }
    await queue.enable({ size: 5, areas: AREAS });
    expect(model.queues[0]).to.deep.include({ size: 5, vector: 0xffff, enable: 1 });
    await refused(() => queue.enable({ size: 5, areas: AREAS }), 'EINVAL', 'enabled already');
  });

  it('sees what the device makes of a setup [pci-driver-vector-verify]', async () => {
    const { model, device } = await negotiated();
    const queue = await device.queue(0);
    model.lies.set('queue_msix_vector', () => 0xffff);
    await refused(() => queue.enable({ size: 8, areas: AREAS, vector: 1 }), 'EIO', 'vector 1', 65535);
    expect(model.queues[0].enable).to.equal(0);
    await refused(() => device.setConfigVector(9), 'EINVAL', 9);
    await device.setConfigVector(2);
    model.lies.set('config_msix_vector', () => 0xffff);
    await refused(() => device.setConfigVector(1), 'EIO', 'vector 1');
    model.lies.set('queue_size', () => 128);
    await refused(() => queue.enable({ size: 8, areas: AREAS }), 'EIO', 'size 8', 128);
  });

  it('takes only powers of two for a split ring [pci-driver-split-size]', async () => {
    const { device } = await negotiated([Feature.VERSION_1]);
    const queue = await device.queue(0);
    await refused(() => queue.enable({ size: 5, areas: AREAS }), 'EINVAL', 'power of two', 5);
    await queue.enable({ size: 4, areas: AREAS });
  });

  it('sets queues up in any order, also at the same time', async () => {
    const queueSizes = [2, 4, 8, 16, 32, 64];
    await fc.assert(
      fc.asyncProperty(
        fc.shuffledSubarray([0, 1, 2, 3, 4, 5], { minLength: 2 }),
        fc.boolean(),
        async (indices, together) => {
          const { model, device } = await negotiated(FEATURES, queueSizes);
          const one = async (index: number) => {
            const queue = await device.queue(index);
            expect(queue).to.equal(await device.queue(index));
            expect(queue.sizeMax).to.equal(queueSizes[index]);
            const areas = { descriptor: 4096 * index, driver: 2 ** 33 * index, device: 16 * index };
            await queue.enable({ size: index + 1, areas });
            await queue.notify({ notificationData: () => 0 });
          };
          if (together) await Promise.all(indices.map(one));
          else for (const index of indices) await one(index);
          model.queues.forEach((queue, index) => {
            const used = indices.includes(index);
            const at = (scale: number) => (used ? BigInt(scale * index) : 0n);
            const areas: QueueRegisters['areas'] = [at(4096), at(2 ** 33), at(16)];
            expect(queue).to.deep.include({ enable: used ? 1 : 0, areas });
            if (used) expect(queue.size).to.equal(index + 1);
          });
          expect(model.notifications).to.have.deep.members(indices.map((index) => [8 * index, 2, index]));
        },
      ),
      { numRuns: 50 },
    );
  });

  for (const data of [false, true])
    for (const configData of [false, true])
      it(`notifies with${data ? '' : 'out'} data, named by ${configData ? 'configuration data' : 'index'} [pci-driver-notify-short] [pci-driver-notify-long] [pci-driver-notify-index] [pci-driver-notify-data-index] [pci-driver-notify-config] [pci-driver-notify-data-config]`, async () => {
        const features = [Feature.VERSION_1];
        if (data) features.push(Feature.NOTIFICATION_DATA);
        if (configData) features.push(Feature.NOTIF_CONFIG_DATA);
        const { model, device } = await negotiated(features);
        const engine = await loadEngine({ size: 65536 });
        const driver = engine.driverQueue({ ring: 'split', size: 8, features });
        driver.add([{ address: 16, length: 1 }], [], 7);
        driver.add([{ address: 16, length: 1 }], [], 8);
        const queue = await device.queue(1);
        await queue.enable({ size: 8, areas: driver.areas });
        await device.start();
        await queue.notify(driver);
        const name = configData ? 0x1231 : 1;
        expect(model.notifications).to.deep.equal(data ? [[8, 4, name + 2 * 65536]] : [[8, 2, name]]);
      });

  it('refuses a notification address outside the structure', async () => {
    const { model, device } = await negotiated();
    model.queues[0].notifyOff = 7;
    model.queues[1].notifyOff = 8;
    await device.queue(0);
    await refused(() => device.queue(1), 'EPROTO', 'queue 1', 64);
    model.queues[1].notifyOff = 0xffff;
    await refused(() => device.queue(1), 'EPROTO', 'queue 1', 8 * 0xffff);
    model.queues[1].notifyOff = 0;
    await device.queue(1);
  });

  it('resets one queue and enables it again [pci-driver-queue-reset-wait]', async () => {
    const { model, device } = await negotiated();
    const [first, second] = [await device.queue(0), await device.queue(1)];
    await refused(() => first.reset(), 'EINVAL', 'not enabled');
    await first.enable({ size: 8, areas: AREAS });
    await second.enable({ size: 8, areas: AREAS });
    await device.start();
    await first.reset();
    expect(model.queues.map(({ enable }) => enable)).to.deep.equal([0, 1]);
    await refused(() => first.notify({ notificationData: () => 0 }), 'EINVAL', 'not enabled');
    await first.enable({ size: 16, areas: AREAS });
    await first.notify({ notificationData: () => 0 });
    expect(model.queues.map(({ enable, size }) => [enable, size])).to.deep.equal([
      [1, 16],
      [1, 8],
    ]);
    model.lies.set('queue_reset', () => 1);
    await refused(() => second.reset(), 'EIO', 'queue_reset of queue 1', '5 reads');
  });

  it('resets one queue only where RING_RESET is negotiated', async () => {
    const { device } = await negotiated([Feature.VERSION_1]);
    const queue = await device.queue(0);
    await queue.enable({ size: 8, areas: AREAS });
    await refused(() => queue.reset(), 'EINVAL', 'RING_RESET');
  });

  it('keeps to the order: features, queues, DRIVER_OK', async () => {
    const model = new PciDeviceModel(FEATURES);
    const device = await open(model);
    await refused(
      async () => (await device.queue(0)).enable({ size: 8, areas: AREAS }),
      'EINVAL',
      'negotiate',
    );
    await refused(() => device.start(), 'EINVAL', 'DRIVER_OK', 'FEATURES_OK');
    expect(model.queues[0].enable).to.equal(0);
    await device.negotiate(FEATURES);
    await refused(() => device.negotiate(FEATURES), 'EINVAL', 'complete', 'reset');
    expect(model.status.has(Status.FAILED)).to.equal(false);
    await device.start();
    expect(device.live).to.equal(true);
  });

  it('a device that refuses the features is told FAILED, and can be tried again', async () => {
    const model = new PciDeviceModel(FEATURES);
    const device = await open(model);
    model.supports = false;
    await refused(() => device.negotiate(FEATURES), 'ENOTSUP', 'RING_PACKED (34)');
    expect(model.status.has(Status.FAILED)).to.equal(true);
    expect(device.negotiation.negotiated.size).to.equal(0);
    await refused(() => device.negotiate(FEATURES), 'EINVAL', 'refused', 'reset');
    model.supports = true;
    await device.reset();
    await device.negotiate([Feature.VERSION_1]);
    await device.start();
    expect(device.live).to.equal(true);
  });

  it('does not accept what it has no means for, nor drive a device without VERSION_1', async () => {
    const all = [...FEATURES, Feature.SR_IOV, Feature.ADMIN_VQ, Feature.SUSPEND];
    const { device } = await negotiated(all);
    expect([...device.negotiation.negotiated]).to.have.members(FEATURES);
    const legacy = new PciDeviceModel(FEATURES);
    legacy.lies.set('device_feature', () => 0);
    const old = await open(legacy);
    await refused(() => old.negotiate(FEATURES), 'EINVAL', 'VERSION_1', 'legacy');
    expect(legacy.status.has(Status.FAILED)).to.equal(true);
  });

  it('accepts no bit that was not offered, whatever the device shows', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 2 ** 32 - 1 }), { minLength: 4, maxLength: 4 }),
        async (words) => {
          words[1] = (words[1] | 1) >>> 0;
          const model = new PciDeviceModel(FEATURES);
          let reads = 0;
          model.lies.set('device_feature', () => words[reads++]);
          // The model refuses what it did not offer: it is the driver's words that count.
          const device = await open(model);
          await device.negotiate(Array.from({ length: 128 }, (_, bit) => bit)).catch(() => undefined);
          const accepted = model.written
            .filter(([name]) => name === 'driver_feature')
            .map(([, word]) => word);
          expect(accepted).to.have.length(4);
          accepted.forEach((word, select) => {
            expect(word & ~words[select]).to.equal(0);
          });
          expect(accepted[1] & 1).to.equal(1);
        },
      ),
      { numRuns: 100 },
    );
  });

  it('notices DEVICE_NEEDS_RESET and recovers', async () => {
    const { model, device } = await negotiated();
    const queue = await device.queue(0);
    await queue.enable({ size: 8, areas: AREAS });
    await device.start();
    model.status.needsReset();
    expect(device.live, 'nobody has looked yet').to.equal(true);
    expect((await device.readStatus()) & Status.DEVICE_NEEDS_RESET).to.equal(Status.DEVICE_NEEDS_RESET);
    expect(device.live).to.equal(false);
    await device.reset();
    await refused(() => queue.notify({ notificationData: () => 0 }), 'EINVAL', 'not enabled');
    await device.negotiate(FEATURES);
    await queue.enable({ size: 8, areas: AREAS });
    await device.start();
    await queue.notify({ notificationData: () => 0 });
    expect(device.live).to.equal(true);
    expect(model.notifications).to.deep.equal([[0, 2, 0]]);
  });

  for (const [what, value] of [
    ['was reset behind the driver', 0],
    ['lost DRIVER_OK', RUNNING & ~Status.DRIVER_OK],
  ] as const)
    it(`notices that the device ${what}`, async () => {
      const { model, device } = await negotiated();
      await device.start();
      model.lies.set('device_status', () => value);
      await refused(() => device.readStatus(), 'EPROTO', 'DRIVER_OK', 'reset it');
      expect(device.live).to.equal(false);
    });

  it('a device that is gone shows all ones', async () => {
    const { model, device } = await negotiated();
    await device.start();
    model.lies.set('device_status', () => 0xff);
    await device.readStatus();
    expect(device.live).to.equal(false);
    await refused(() => device.reset(), 'EIO', 255);
  });

  it('reads device-specific configuration of one generation', async () => {
    const { model, device } = await negotiated();
    let changes = 3;
    model.configRead = () => {
      if (changes > 0) {
        changes--;
        model.generation++;
        model.deviceConfig.fill(changes);
      }
    };
    const fields = [
      { offset: 0, width: 4 },
      { offset: 4, width: 4 },
    ] as const;
    expect(await device.readConfig(fields)).to.deep.equal([0, 0]);
    expect(model.generation).to.equal(3);
    model.configRead = () => {
      model.generation++;
    };
    await refused(() => device.readConfig(fields), 'EIO', '5 reads');
    model.configRead = undefined;
    await device.writeConfig({ offset: 6, width: 2 }, 0xabcd);
    expect(await device.readConfig([{ offset: 4, width: 4 }])).to.deep.equal([0xabcd0000]);
    for (const offset of [-4, 16, 14, 2, 0.5])
      await refused(() => device.readConfig([{ offset, width: 4 }]), 'EINVAL', offset, '16 bytes');
    await refused(() => device.readConfig([{ offset: 0, width: 8 as 4 }]), 'EINVAL', 'width', 8);
    await refused(() => device.writeConfig({ offset: 0, width: 1 }, 256), 'EINVAL', 256);
  });

  it('a device without device-specific configuration', async () => {
    const model = new PciDeviceModel(FEATURES);
    model.config[model.capability(4) + 3] = 99;
    const device = await open(model);
    await refused(() => device.readConfig([{ offset: 0, width: 1 }]), 'ENOTSUP', 'device-specific');
  });

  it('reads and clears the ISR status [pci-driver-shared-interrupt]', async () => {
    const { model, device } = await negotiated();
    model.isr = 0xfd;
    expect(await device.readIsr()).to.deep.equal({ queue: true, config: false });
    model.isr = 2;
    expect(await device.readIsr()).to.deep.equal({ queue: false, config: true });
    model.isr = 3;
    expect(await device.readIsr()).to.deep.equal({ queue: true, config: true });
    expect(await device.readIsr()).to.deep.equal({ queue: false, config: false });
  });

  it('points MSI-X entries at memory', async () => {
    const { model, device } = await negotiated();
    const { msix } = device;
    if (msix === undefined) throw new Error('no MSI-X');
    expect(msix.vectors).to.equal(VECTORS);
    const control = () => model.config[model.msixAt + 3] >> 6;
    await msix.enable();
    expect(control()).to.equal(2);
    await msix.setEntry(VECTORS - 1, 0xfffffffffffffffcn, 0x89abcdef);
    expect([...new Uint32Array(model.msixTable.buffer).slice(-4)]).to.deep.equal([
      0xfffffffc, 0xffffffff, 0x89abcdef, 0,
    ]);
    await refused(() => msix.setEntry(VECTORS, 0, 0), 'EINVAL', VECTORS);
    await refused(() => msix.setEntry(0, 2, 0), 'EINVAL', 'address');
    await refused(() => msix.setEntry(0, 2n ** 64n, 0), 'EINVAL', 'address');
    await refused(() => msix.setEntry(0, 4, -1), 'EINVAL', 'data');
    await msix.enable(false);
    expect(control()).to.equal(0);
  });

  it('a device without MSI-X takes no vectors', async () => {
    const model = new PciDeviceModel(FEATURES);
    model.config[model.msixAt] = 0x01;
    const device = await open(model);
    await device.negotiate(FEATURES);
    expect(device.msix).to.equal(undefined);
    const queue = await device.queue(0);
    await refused(() => queue.enable({ size: 8, areas: AREAS, vector: 0 }), 'ENOTSUP', 'MSI-X');
    await refused(() => device.setConfigVector(0), 'ENOTSUP', 'MSI-X');
  });

  describe('capabilities', () => {
    it('one that is too short, one of a reserved BAR and an unusable structure are passed over [pci-driver-reserved-bar]', async () => {
      for (const type of [1, 2, 3]) {
        const model = new PciDeviceModel(FEATURES);
        const at = model.capability(type);
        model.config[at + 4] = 6;
        await refused(() => open(model), 'ENOTSUP', 'no capability', 'legacy');
        model.config[at + 4] = 4;
        model.config[at + 2] = 15;
        await refused(() => open(model), 'ENOTSUP', 'no capability');
      }
      const short = new PciDeviceModel(FEATURES);
      short.config[short.capability(1) + 12] = 55;
      await refused(() => open(short), 'ENOTSUP', 'common configuration');
    });

    it('takes the first of several [pci-driver-first-structure]', async () => {
      const model = new PciDeviceModel(FEATURES);
      const at = model.capability(1);
      // In front of the list: one that cannot be used.
      model.config.set(model.config.slice(at, at + 16), 0xf0);
      model.config.set([at, 16, 1, 7], 0xf1);
      model.config[0x34] = 0xf0;
      expect((await open(model)).deviceId).to.equal(2);
      // Behind it: one that must not be used, as the first is fine.
      const last = new PciDeviceModel(FEATURES);
      last.config.set(last.config.slice(at, at + 16), 0xf0);
      last.config.set([0, 16, 1, 5], 0xf1);
      last.config[last.msixAt + 1] = 0xf0;
      expect((await open(last)).deviceId).to.equal(2);
    });

    it('takes larger structures and capabilities [pci-driver-large-structure] [pci-driver-longer-capability]', async () => {
      const model = new PciDeviceModel(FEATURES);
      const at = model.capability(3);
      model.config.set([0xff, 0xff, 0xff, 0xff], at + 12);
      for (const type of [1, 2, 3, 4]) model.config[model.capability(type) + 2] += 8;
      const device = await open(model);
      expect(await device.readIsr()).to.deep.equal({ queue: false, config: false });
      expect(await device.readConfig([{ offset: 0, width: 4 }])).to.deep.equal([0]);
    });

    it('one of a reserved kind is passed over, wherever it is [pci-driver-reserved-type]', async () => {
      for (const type of [0, 6, 7, 10, 99, 255])
        for (const front of [true, false]) {
          const model = new PciDeviceModel(FEATURES);
          // As the common configuration, elsewhere: whoever took it for that would not get far.
          model.config.set(model.config.slice(model.capability(1), model.capability(1) + 16), 0xf0);
          model.config.set([front ? model.config[0x34] : 0, 16, type, 5], 0xf1);
          if (front) model.config[0x34] = 0xf0;
          else model.config[model.msixAt + 1] = 0xf0;
          const device = await open(model);
          await device.negotiate(FEATURES);
          expect(device.numQueues).to.equal(2);
        }
    });

    it('no list, a list that loops, a list that leads into the header [pci-driver-no-capabilities]', async () => {
      const none = new PciDeviceModel(FEATURES);
      none.config[0x06] = 0;
      await refused(() => open(none), 'ENOTSUP', 'legacy');
      const loop = new PciDeviceModel(FEATURES);
      loop.config[loop.msixAt + 1] = 0x40;
      await refused(() => open(loop), 'ELOOP', 48);
      const self = new PciDeviceModel(FEATURES);
      self.config[0x41] = 0x40;
      await refused(() => open(self), 'ELOOP', 48);
      const header = new PciDeviceModel(FEATURES);
      header.config[0x41] = 0x10;
      await refused(() => open(header), 'EPROTO', '0x10');
    });

    it('an MSI-X table in a BAR that does not exist', async () => {
      const model = new PciDeviceModel(FEATURES);
      model.config[model.msixAt + 4] |= 7;
      await refused(() => open(model), 'EPROTO', 'BAR 7');
    });

    it('any configuration space ends in a device or in an error', async () => {
      let opened = 0;
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.tuple(fc.integer({ min: 4, max: 255 }), fc.integer({ min: 0, max: 255 })), {
            maxLength: 6,
          }),
          async (changes) => {
            const model = new PciDeviceModel(FEATURES);
            for (const [at, value] of changes) model.config[at] = value;
            try {
              await open(model);
              opened++;
            } catch (error) {
              if (!(error instanceof VringError)) throw error;
            }
          },
        ),
        { numRuns: 300 },
      );
      expect(opened).to.be.above(0);
    });
  });

  it('knows virtio devices by their numbers [pci-driver-modern-ids] [pci-driver-transitional-ids]', async () => {
    const id = async (vendor: number, device: number) => {
      const model = new PciDeviceModel(FEATURES);
      model.config.set([vendor & 0xff, vendor >> 8, device & 0xff, device >> 8], 0);
      return (await open(model)).deviceId;
    };
    expect(await id(0x1af4, 0x1041)).to.equal(1);
    expect(await id(0x1af4, 0x107f)).to.equal(63);
    // Network, block, balloon, console, SCSI host, entropy, 9P.
    for (const [transitional, virtio] of [
      [0x1000, 1],
      [0x1001, 2],
      [0x1002, 5],
      [0x1003, 3],
      [0x1004, 8],
      [0x1005, 4],
      [0x1009, 9],
    ])
      expect(await id(0x1af4, transitional)).to.equal(virtio);
    for (const [vendor, device] of [
      [0x1af4, 0x1080],
      [0x1af4, 0x103f],
      [0x1af5, 0x1041],
      [0xffff, 0xffff],
    ])
      await refused(() => id(vendor, device), 'ENOTSUP', device.toString(16));
  });

  it('takes any revision and any subsystem [pci-driver-revision]', async () => {
    for (const value of [0, 1, 2, 0x7f, 0xff]) {
      const model = new PciDeviceModel(FEATURES);
      model.config[0x08] = value;
      model.config.fill(value, 0x2c, 0x30);
      expect((await open(model)).deviceId).to.equal(2);
    }
  });

  it('takes an MSI-X table of any size [pci-driver-any-vectors]', async () => {
    for (const vectors of [1, 2, 3, 1024, 2047, 2048]) {
      const model = new PciDeviceModel(FEATURES);
      new DataView(model.config.buffer).setUint16(model.msixAt + 2, vectors - 1, true);
      const device = await open(model);
      expect(device.msix?.vectors).to.equal(vectors);
      await device.negotiate(FEATURES);
      await device.setConfigVector(0);
      const queue = await device.queue(0);
      await refused(() => queue.enable({ size: 8, areas: AREAS, vector: vectors }), 'EINVAL', vectors);
      await queue.enable({ size: 8, areas: AREAS, vector: vectors - 1 });
      expect(model.queues[0].vector).to.equal(vectors - 1);
    }
  });

  it('accesses registers as wide as they are, and writes no others than it may, from the start to the end [pci-driver-access-width] [pci-driver-read-only-fields] [pci-driver-no-disable] [pci-driver-capabilities-read-only] [pci-driver-isr-unused]', async () => {
    const features = [...FEATURES, Feature.NOTIF_CONFIG_DATA];
    const model = new PciDeviceModel(features);
    const configuration: number[] = [];
    const { isr, specific }: { isr: number[]; specific: [number, number][] } = { isr: [], specific: [] };
    const { readBar, writeBar, writeConfig } = model;
    model.writeConfig = (offset, width, value) => {
      configuration.push(offset);
      return writeConfig.call(model, offset, width, value);
    };
    const note = (bar: number, offset: number, width: number): void => {
      expect(offset % width, `${width} bytes at ${offset} of BAR ${bar}`).to.equal(0);
      if (bar === 2) isr.push(offset);
      if (bar === 4 && offset >= 0x200 && offset < 0x210) specific.push([offset - 0x200, width]);
    };
    // The model itself refuses what is no whole register of the common configuration.
    model.readBar = (bar, offset, width) => {
      note(bar, offset, width);
      return readBar.call(model, bar, offset, width);
    };
    model.writeBar = (bar, offset, width, value) => {
      note(bar, offset, width);
      return writeBar.call(model, bar, offset, width, value);
    };

    const device = await open(model);
    await device.negotiate(features);
    await device.msix?.enable();
    await device.msix?.setEntry(1, 0x1000, 7);
    await device.setConfigVector(0);
    const queue = await device.queue(0);
    await queue.enable({ size: 8, areas: AREAS, vector: 1 });
    await device.start();
    await queue.notify({ notificationData: () => 0 });
    await device.readConfig([
      { offset: 1, width: 1 },
      { offset: 2, width: 2 },
      { offset: 8, width: 4 },
      { offset: 12, width: 4 },
    ]);
    await device.writeConfig({ offset: 6, width: 2 }, 1);
    await queue.reset();
    await queue.enable({ size: 16, areas: AREAS });
    await device.setConfigVector();
    await device.readStatus();
    await device.reset();
    await device.msix?.enable(false);

    expect(specific).to.deep.equal([
      [1, 1],
      [2, 2],
      [8, 4],
      [12, 4],
      [6, 2],
    ]);
    const values = (name: string) => model.written.filter(([one]) => one === name).map(([, value]) => value);
    expect(values('queue_desc')).to.deep.equal([0x2345_6000, 0x2345_6000]);
    expect(values('queue_desc_hi')).to.deep.equal([1, 1]);
    expect(values('queue_enable')).to.deep.equal([1, 1]);
    const writable = [
      'device_feature_select',
      'driver_feature_select',
      'driver_feature',
      'config_msix_vector',
      'device_status',
      'queue_select',
      'queue_size',
      'queue_msix_vector',
      'queue_enable',
      'queue_reset',
      ...['desc', 'driver', 'device'].flatMap((area) => [`queue_${area}`, `queue_${area}_hi`]),
    ];
    expect([...new Set(model.written.map(([name]) => name))]).to.have.members(writable);
    // Message control of MSI-X: no virtio capability.
    expect([...new Set(configuration)]).to.deep.equal([model.msixAt + 2]);
    expect(isr).to.deep.equal([]);
  });

  it('refuses arguments that are none', async () => {
    const { device } = await negotiated([Feature.VERSION_1, Feature.NOTIFICATION_DATA]);
    const queue = await device.queue(0);
    const none = [undefined, null, 7, 'x', {}, []] as never[];
    for (const value of none) {
      await refused(() => PciTransport.open(value), 'EINVAL', 'pci');
      await refused(() => queue.enable(value), 'EINVAL');
      await refused(() => device.readConfig([value]), 'EINVAL');
      await refused(() => device.writeConfig(value, 0), 'EINVAL');
    }
    for (const value of none.slice(0, -1)) await refused(() => device.readConfig(value), 'EINVAL', 'fields');
    for (const value of none.slice(1, 4))
      await refused(() => PciTransport.open(new PciDeviceModel(FEATURES), value), 'EINVAL');
    for (const polls of [0, -1, 0.5, '1' as never, Number.POSITIVE_INFINITY])
      await refused(() => PciTransport.open(new PciDeviceModel(FEATURES), { polls }), 'EINVAL', 'polls');
    await queue.enable({ size: 8, areas: AREAS });
    for (const value of none) await refused(() => queue.notify(value), 'EINVAL', 'notification');
  });

  it('a function that fails, or gives what is no value, is an EIO with the cause', async () => {
    for (const value of [-1, 256, 1.5, Number.NaN, undefined as unknown as number]) {
      const { model, device } = await negotiated();
      model.readBar = async () => value;
      await refused(() => device.readStatus(), 'EIO', String(value), 'BAR 4');
    }
    const { model, device } = await negotiated();
    const cause = new Error('unplugged');
    const gone = async () => {
      throw cause;
    };
    model.readBar = gone;
    model.writeBar = gone;
    await refused(() => device.readStatus(), 'EIO', 'cannot read', 'unplugged');
    await refused(() => device.start(), 'EIO', 'cannot write', 'unplugged');
    await refused(() => device.queue(0), 'EIO', 'unplugged');
    const error = await device.reset().catch((thrown: unknown) => thrown);
    expect((error as VringError).cause).to.equal(cause);
    expect(device.live).to.equal(false);
  });
});
