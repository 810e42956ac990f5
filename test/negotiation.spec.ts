import { expect } from 'chai';
import fc from 'fast-check';
import { type DeviceType, NET, NetFeature } from '../src/device-types.js';
import { VringError } from '../src/errors.js';
import {
  Feature,
  featureKind,
  featureMask,
  featureSet,
  featuresOfWords,
  featureWord,
  LegacyFeature,
} from '../src/features.js';
import { Negotiation } from '../src/negotiation.js';

const N = NetFeature;
const V1 = Feature.VERSION_1;

/** Asserts that `action` throws EINVAL with a message that has all of `parts`. */
function refuses(action: () => unknown, ...parts: string[]): void {
  let error: unknown;
  try {
    action();
  } catch (e) {
    error = e;
  }
  expect(error).to.be.instanceOf(VringError);
  const { code, message } = error as VringError;
  expect(code, message).to.equal('EINVAL');
  for (const part of parts) expect(message).to.include(part);
}

const bitNumber = fc.integer({ min: 0, max: 200 });

describe('features', () => {
  it('turns bit numbers into a mask and back', () => {
    fc.assert(
      fc.property(fc.array(bitNumber), (bits) => {
        const sorted = [...new Set(bits)].sort((a, b) => a - b);
        const mask = featureMask(bits);
        expect([...featureSet(bits)]).to.deep.equal(sorted);
        expect([...featureSet(mask)]).to.deep.equal(sorted);
        expect(featureMask(new Set(bits))).to.equal(mask);
        expect(mask).to.equal(sorted.reduce((sum, bit) => sum + 2n ** BigInt(bit), 0n));
      }),
    );
  });

  it('turns bit numbers into words of a transport and back', () => {
    fc.assert(
      fc.property(fc.array(bitNumber), (bits) => {
        const words = Array.from({ length: 7 }, (_, select) => featureWord(bits, select));
        for (const word of words) expect(word).to.be.within(0, 2 ** 32 - 1);
        expect([...featuresOfWords(words)]).to.deep.equal([...featureSet(bits)]);
        // A register read as a signed number means the same.
        expect([...featuresOfWords(words.map((word) => word | 0))]).to.deep.equal([...featureSet(bits)]);
      }),
    );
  });

  it('keeps bit 31 apart from every other bit', () => {
    expect(featureMask([31])).to.equal(0x8000_0000n);
    expect(featureWord([31], 0)).to.equal(0x8000_0000);
    expect(featureWord([31], 1)).to.equal(0);
    expect([...featuresOfWords([0x8000_0000 | 0])]).to.deep.equal([31]);
    expect([...featureSet(0x1_8000_0000n)]).to.deep.equal([31, 32]);
  });

  it('reaches beyond bit 127', () => {
    expect(featureWord([128, 8191], 4)).to.equal(1);
    expect(featureWord([128, 8191], 255)).to.equal(0x8000_0000);
    expect([...featureSet((1n << 8191n) | (1n << 128n))]).to.deep.equal([128, 8191]);
  });

  it('refuses what is no set of bits', () => {
    refuses(() => featureSet([-1]), '-1', 'Feature.EVENT_IDX');
    refuses(() => featureSet([8192]), '8192');
    refuses(() => featureSet([28.5]), '28.5');
    refuses(() => featureSet([Number.NaN]), 'NaN');
    refuses(() => featureSet(['28' as unknown as number]), '28');
    refuses(() => featureSet(-1n), '-1');
    refuses(() => featureSet(1n << 8192n), 'mask');
    refuses(() => featureSet(28 as unknown as number[]), '28', 'array');
    refuses(() => featureSet(undefined as unknown as number[]), 'undefined');
  });

  it('knows whose each bit is', () => {
    const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
    const kinds: Record<string, number[]> = {};
    for (const bit of range(0, 129)) {
      const kind = featureKind(bit);
      kinds[kind] = [...(kinds[kind] ?? []), bit];
    }
    expect(kinds).to.deep.equal({
      'device-type': [...range(0, 23), 42, ...range(50, 127)],
      legacy: [24, 27, 30],
      undefined: [25, 26, 31],
      'device-independent': [28, 29, ...range(32, 41), 43],
      reserved: [...range(44, 49), 128, 129],
    });
  });
});

describe('negotiation', () => {
  const toy: DeviceType = {
    name: 'toy',
    features: { A: 0, B: 1, C: 2, D: 127 },
    requires: new Map([
      [1, [[0]]],
      [2, [[0, 127], [1]]],
    ]),
  };

  it('lets a device offer and a driver accept any valid part of it [feature-device-subset]', () => {
    const understood = [V1, Feature.EVENT_IDX, Feature.INDIRECT_DESC, Feature.RING_PACKED, 0, 1, 2, 127];
    fc.assert(
      fc.property(fc.subarray(understood), (wanted) => {
        const negotiation = Negotiation.offer(understood, { deviceType: toy });
        const set = negotiation.choose([...wanted, V1]);
        negotiation.accept(set);
        expect(negotiation.complete()).to.equal(true);
        expect([...negotiation.negotiated]).to.deep.equal([...featureSet(set)]);
        for (const bit of understood) expect(negotiation.has(bit)).to.equal(set.has(bit));
        // Nothing is left out without need.
        for (const bit of wanted) {
          if (!set.has(bit)) expect(negotiation.problems([...set, bit])).to.have.lengthOf.above(0);
        }
      }),
    );
  });

  it('takes features as an array, a Set or a mask, on both sides', () => {
    const mask = (1n << 32n) | (1n << 29n);
    for (const offered of [[32, 29], new Set([29, 32]), mask]) {
      for (const accepted of [[32, 29], new Set([29, 32]), mask]) {
        const negotiation = Negotiation.offer(offered);
        negotiation.accept(accepted);
        expect(negotiation.complete()).to.equal(true);
        expect([...negotiation.negotiated]).to.deep.equal([29, 32]);
      }
    }
  });

  it('has no feature before negotiation is complete', () => {
    const negotiation = Negotiation.offer([V1, Feature.EVENT_IDX]);
    expect(negotiation.has(V1)).to.equal(false);
    expect([...negotiation.negotiated]).to.deep.equal([]);
    negotiation.accept([V1]);
    expect(negotiation.has(V1)).to.equal(false);
    expect([...negotiation.negotiated]).to.deep.equal([]);
    expect([...negotiation.accepted]).to.deep.equal([V1]);
    expect(negotiation.complete()).to.equal(true);
    expect(negotiation.has(V1)).to.equal(true);
    expect(negotiation.has(Feature.EVENT_IDX)).to.equal(false);
    expect(negotiation.has(99)).to.equal(false);
  });

  it('can negotiate bit 31, and bits beyond 127, as experiments', () => {
    const experimental = { TOP_BIT: 31, FAR: 128 };
    const negotiation = Negotiation.offer([31, V1, 128], { experimental });
    negotiation.accept([31, V1]);
    expect(negotiation.complete()).to.equal(true);
    expect(negotiation.has(31)).to.equal(true);
    expect(negotiation.has(128)).to.equal(false);
    expect(negotiation.has(0)).to.equal(false);
    expect(negotiation.describe(31)).to.equal('TOP_BIT (31)');
    // Without that agreement nobody may use them.
    refuses(() => Negotiation.offer([31, V1]), '(31)', 'not defined');
  });

  it('accepts nothing that was not offered [feature-driver-offered]', () => {
    const negotiation = Negotiation.offer([V1, Feature.EVENT_IDX]);
    refuses(() => negotiation.accept([V1, Feature.INDIRECT_DESC]), 'INDIRECT_DESC (28)', 'not offered');
    expect([...negotiation.accepted]).to.deep.equal([]);
    expect([...negotiation.choose([V1, Feature.INDIRECT_DESC])]).to.deep.equal([V1]);
  });

  it('names every bit that is wrong, and what to do', () => {
    const negotiation = Negotiation.offer([V1, 0, 1], { deviceType: toy });
    refuses(
      () => negotiation.accept([1, Feature.EVENT_IDX, 44]),
      'EVENT_IDX (29) was not offered: leave it out',
      'feature bit (44) is reserved: leave it out',
      'B (1) requires A (0): accept both or neither',
      'VERSION_1 (32) is missing: a driver has to accept it',
    );
  });

  it('accepts nothing without what it requires [feature-driver-requires]', () => {
    const negotiation = Negotiation.offer([V1, 0, 1, 2, 127], { deviceType: toy });
    refuses(() => negotiation.accept([V1, 1]), 'B (1) requires A (0)');
    refuses(() => negotiation.accept([V1, 0, 2]), 'C (2) requires B (1)');
    refuses(() => negotiation.accept([V1, 2, 1]), 'C (2) requires A (0) or D (127)', 'B (1) requires A (0)');
    expect([...negotiation.choose([V1, 1, 2, 127])]).to.have.members([V1, 127]);
    negotiation.accept([V1, 0, 1, 2]);
    expect([...negotiation.accepted]).to.deep.equal([0, 1, 2, V1]);
  });

  it('offers nothing without what it requires [feature-device-requires]', () => {
    refuses(() => Negotiation.offer([V1, 1], { deviceType: toy }), 'B (1) requires A (0): offer that too');
    refuses(() => Negotiation.offer([V1, 2], { deviceType: toy }), 'C (2) requires B (1)');
    expect(() => Negotiation.offer([V1, 0, 1], { deviceType: toy })).not.to.throw();
  });

  it('offers nothing that it could not keep [feature-device-unsupported]', () => {
    refuses(() => Negotiation.offer([V1, 25]), '(25)', 'not defined by the specification');
    refuses(() => Negotiation.offer([V1, 44]), '(44)', 'reserved');
    refuses(() => Negotiation.offer([V1, 128]), '(128)', 'reserved');
    refuses(() => Negotiation.offer([V1, LegacyFeature.ANY_LAYOUT]), 'ANY_LAYOUT (27)', 'legacy');
    refuses(() => Negotiation.offer([V1, 3]), '(3)', 'pass deviceType');
    refuses(() => Negotiation.offer([V1, 3], { deviceType: toy }), '(3)', 'not defined for the toy');
    refuses(
      () => Negotiation.offer([V1, Feature.ADMIN_VQ], { transport: 'mmio' }),
      'ADMIN_VQ (41)',
      "'mmio'",
    );
    refuses(() => Negotiation.offer([V1, Feature.RING_RESET], { transport: 'ccw' }), 'RING_RESET (40)');
    expect(() => Negotiation.offer([V1, Feature.RING_RESET], { transport: 'mmio' })).not.to.throw();
    expect(() => Negotiation.offer([V1, Feature.ADMIN_VQ], { transport: 'pci' })).not.to.throw();
  });

  it('offers VERSION_1 in any case [reserved-device-version-1]', () => {
    refuses(() => Negotiation.offer([Feature.EVENT_IDX]), 'VERSION_1 (32)', 'has to offer it');
    refuses(() => Negotiation.offer([]), 'VERSION_1 (32)');
  });

  it('accepts VERSION_1 where it is offered [reserved-driver-version-1]', () => {
    const negotiation = Negotiation.offer([V1, Feature.EVENT_IDX]);
    refuses(() => negotiation.accept([Feature.EVENT_IDX]), 'VERSION_1 (32)', 'has to accept it');
    refuses(() => negotiation.accept([]), 'VERSION_1 (32)');
  });

  it('does not drive a legacy device', () => {
    const negotiation = Negotiation.receive([Feature.EVENT_IDX]);
    refuses(() => negotiation.accept([Feature.EVENT_IDX]), 'VERSION_1 (32) was not offered', 'legacy');
  });

  it('checks an offer that it did not make [feature-driver-validates]', () => {
    const offered = [V1, Feature.EVENT_IDX, 1, 2, 25, 27, 44, 200, Feature.SR_IOV];
    const negotiation = Negotiation.receive(offered, { deviceType: toy });
    expect([...negotiation.offered]).to.deep.equal([1, 2, Feature.EVENT_IDX, V1]);
    expect([...negotiation.ignored]).to.deep.equal([25, 27, Feature.SR_IOV, 44, 200]);
    // The device offered B without A: B cannot be had.
    expect([...negotiation.choose([V1, 0, 1, 2])]).to.deep.equal([V1]);
  });

  it('does not fail over a feature that it does not know [feature-driver-unknown-offer]', () => {
    fc.assert(
      fc.property(fc.array(bitNumber), (bits) => {
        const negotiation = Negotiation.receive([V1, ...bits], { deviceType: toy });
        negotiation.accept(negotiation.choose([V1, Feature.EVENT_IDX]));
        expect(negotiation.complete()).to.equal(true);
        expect(negotiation.has(Feature.EVENT_IDX)).to.equal(bits.includes(Feature.EVENT_IDX));
      }),
    );
  });

  /** That `bit`, though offered, is ignored, is not chosen and cannot be accepted. */
  function ignores(bit: number, why: string, options: Parameters<typeof Negotiation.receive>[1] = {}): void {
    const negotiation = Negotiation.receive([V1, bit], options);
    expect([...negotiation.offered], `bit ${bit}`).to.deep.equal([V1]);
    expect([...negotiation.ignored], `bit ${bit}`).to.deep.equal([bit]);
    expect([...negotiation.choose([V1, bit])], `bit ${bit}`).to.deep.equal([V1]);
    refuses(() => negotiation.accept([V1, bit]), `(${bit})`, why);
  }

  it('ignores bits that the specification does not describe [feature-driver-undescribed]', () => {
    for (const bit of [25, 26, 31]) ignores(bit, 'not defined by the specification');
  });

  it('ignores reserved bits [feature-driver-reserved]', () => {
    for (const bit of [44, 45, 46, 47, 48, 49, 128, 129, 1000, 8191]) ignores(bit, 'reserved');
  });

  it('ignores bits of the legacy interface', () => {
    for (const bit of [24, 27, 30]) ignores(bit, 'legacy interface');
    ignores(24, 'NOTIFY_ON_EMPTY');
  });

  it('does not negotiate bit 30 [reserved-driver-legacy-unused]', () => {
    ignores(LegacyFeature.UNUSED, 'UNUSED (30)');
    const negotiation = Negotiation.offer([V1]);
    negotiation.acceptUnchecked([V1, LegacyFeature.UNUSED]);
    expect(negotiation.complete()).to.equal(false);
    expect(negotiation.refusal).to.include('UNUSED (30)');
  });

  it('ignores features that the transport does not support [feature-driver-transport]', () => {
    ignores(Feature.ADMIN_VQ, "transport 'mmio'", { transport: 'mmio' });
    ignores(Feature.ADMIN_VQ, "transport 'ccw'", { transport: 'ccw' });
    ignores(Feature.RING_RESET, "transport 'ccw'", { transport: 'ccw' });
    ignores(Feature.ADMIN_VQ, "transport 'other'");
    for (const transport of ['pci', 'mmio', 'other'] as const) {
      const negotiation = Negotiation.receive([V1, Feature.RING_RESET], { transport });
      negotiation.accept([V1, Feature.RING_RESET]);
      expect(negotiation.complete(), transport).to.equal(true);
    }
  });

  it('ignores bits that the device type does not define [feature-driver-device-type]', () => {
    for (const bit of [3, 23, 42, 50, 126]) {
      ignores(bit, 'not defined for the toy', { deviceType: toy });
      ignores(bit, 'pass deviceType');
    }
  });

  it('offers SR_IOV on PCI only [reserved-device-sr-iov]', () => {
    for (const transport of ['mmio', 'ccw', 'other'] as const) {
      refuses(() => Negotiation.offer([V1, Feature.SR_IOV], { transport }), 'SR_IOV (37)', transport);
    }
    expect(() => Negotiation.offer([V1, Feature.SR_IOV], { transport: 'pci' })).not.to.throw();
  });

  it('accepts SR_IOV on PCI only [reserved-driver-sr-iov]', () => {
    for (const transport of ['mmio', 'ccw', 'other'] as const) {
      ignores(Feature.SR_IOV, 'SR_IOV (37)', { transport });
    }
    const negotiation = Negotiation.receive([V1, Feature.SR_IOV], { transport: 'pci' });
    expect([...negotiation.choose([V1, Feature.SR_IOV])]).to.include(Feature.SR_IOV);
  });

  /** That a driver that understands `bit` ends up with it where it is offered, and does without it where not. */
  function takes(bit: number): void {
    const understood = [V1, bit];
    const offered = Negotiation.receive([V1, Feature.EVENT_IDX, bit]);
    offered.accept(offered.choose(understood));
    expect(offered.complete()).to.equal(true);
    expect(offered.has(bit)).to.equal(true);
    const missing = Negotiation.receive([V1, Feature.EVENT_IDX]);
    missing.accept(missing.choose(understood));
    expect(missing.complete()).to.equal(true);
    expect(missing.has(bit)).to.equal(false);
  }

  it('chooses ACCESS_PLATFORM where it is offered [reserved-driver-access-platform]', () => {
    takes(Feature.ACCESS_PLATFORM);
  });

  it('chooses RING_PACKED where it is offered [reserved-driver-ring-packed]', () => {
    takes(Feature.RING_PACKED);
  });

  it('chooses ORDER_PLATFORM where it is offered [reserved-driver-order-platform]', () => {
    takes(Feature.ORDER_PLATFORM);
  });

  it('chooses NOTIF_CONFIG_DATA where it is offered [reserved-driver-notif-config-data]', () => {
    takes(Feature.NOTIF_CONFIG_DATA);
  });

  it('does without a feature that is not offered [feature-driver-backwards]', () => {
    const negotiation = Negotiation.receive([V1, 0], { deviceType: toy });
    negotiation.accept(
      negotiation.choose([
        V1,
        Feature.EVENT_IDX,
        Feature.RING_PACKED,
        NetFeature.CSUM,
        NetFeature.GUEST_CSUM,
      ]),
    );
    expect(negotiation.complete()).to.equal(true);
    expect([...negotiation.negotiated]).to.deep.equal([0, V1]);
  });

  it('accepts nothing after FEATURES_OK [init-driver-no-new-features]', () => {
    const negotiation = Negotiation.offer([V1, Feature.EVENT_IDX]);
    negotiation.accept([V1, Feature.EVENT_IDX]);
    negotiation.accept([V1]);
    expect(negotiation.complete()).to.equal(true);
    refuses(() => negotiation.accept([V1, Feature.EVENT_IDX]), 'complete', 'reset');
    refuses(() => negotiation.acceptUnchecked([V1, Feature.EVENT_IDX]), 'complete');
    refuses(() => negotiation.complete(), 'complete');
    expect([...negotiation.negotiated]).to.deep.equal([V1]);
  });

  it('refuses what an untrusted driver accepts against the rules', () => {
    const bad: [number[], string][] = [
      [[V1, Feature.INDIRECT_DESC], 'INDIRECT_DESC (28) was not offered'],
      [[V1, 1], 'B (1) requires A (0)'],
      [[Feature.EVENT_IDX], 'VERSION_1 (32) is missing'],
      [[V1, 44], '(44) is reserved'],
      [[], 'VERSION_1 (32) is missing'],
    ];
    for (const [features, reason] of bad) {
      const negotiation = Negotiation.offer([V1, Feature.EVENT_IDX, 0, 1], { deviceType: toy });
      negotiation.acceptUnchecked(features);
      expect(negotiation.complete(), reason).to.equal(false);
      expect(negotiation.refusal).to.include(reason);
      expect(negotiation.state).to.equal('refused');
      for (const bit of features) expect(negotiation.has(bit)).to.equal(false);
    }
  });

  it('never negotiates an invalid set, whatever a driver writes', () => {
    const offered = [V1, Feature.EVENT_IDX, Feature.INDIRECT_DESC, 0, 1, 2, 127];
    const bits = fc.oneof(fc.constantFrom(...offered), bitNumber);
    let valid = 0;
    fc.assert(
      fc.property(fc.array(bits, { maxLength: 6 }), fc.boolean(), (written, version) => {
        const negotiation = Negotiation.offer(offered, { deviceType: toy });
        negotiation.acceptUnchecked(version ? [...written, V1] : written);
        const set = negotiation.accepted;
        const rules =
          [...set].every((bit) => offered.includes(bit)) &&
          set.has(V1) &&
          (!set.has(1) || set.has(0)) &&
          (!set.has(2) || (set.has(1) && (set.has(0) || set.has(127))));
        expect(negotiation.complete()).to.equal(rules);
        expect([...negotiation.negotiated]).to.deep.equal(rules ? [...set] : []);
        if (rules) valid++;
      }),
      { numRuns: 500 },
    );
    expect(valid).to.be.above(0);
  });

  it('leaves the last word on a valid set to the device [feature-device-refuses]', () => {
    const negotiation = Negotiation.offer([V1, Feature.EVENT_IDX]);
    negotiation.accept([V1]);
    const asked: number[][] = [];
    const supports = (features: ReadonlySet<number>) => {
      asked.push([...features]);
      return features.has(Feature.EVENT_IDX);
    };
    expect(negotiation.complete(supports)).to.equal(false);
    expect(negotiation.state).to.equal('refused');
    expect(negotiation.refusal).to.include('VERSION_1 (32)');
    refuses(() => negotiation.accept([V1, Feature.EVENT_IDX]), 'refused', 'reset');
    negotiation.reset();
    expect(negotiation.refusal).to.equal(undefined);
    negotiation.accept([V1, Feature.EVENT_IDX]);
    expect(negotiation.complete(supports)).to.equal(true);
    expect(asked).to.deep.equal([[V1], [Feature.EVENT_IDX, V1]]);
  });

  it('does not ask the device about an invalid set', () => {
    const negotiation = Negotiation.offer([V1]);
    negotiation.acceptUnchecked([V1, 44]);
    expect(negotiation.complete(() => expect.fail('asked'))).to.equal(false);
  });

  it('refuses bits where they cannot be defined', () => {
    const type = (bit: number): DeviceType => ({ name: 'x', features: { X: bit } });
    for (const bit of [24, 25, 28, 40, 41, 43, 44, 128]) {
      refuses(() => Negotiation.offer([V1], { deviceType: type(bit) }), `X (${bit})`, '0–23, 42 and 50–127');
    }
    for (const bit of [0, 23, 24, 27, 28, 32, 41, 42, 43, 50, 127]) {
      refuses(() => Negotiation.offer([V1], { experimental: { X: bit } }), `X (${bit})`, '25, 26, 31');
    }
    refuses(
      () => Negotiation.offer([V1], { deviceType: { name: 'x', features: { X: 0, Y: 0 } } }),
      'Y (0)',
      'X',
    );
    refuses(() => Negotiation.offer([V1], { experimental: { X: -1 } }), '-1');
    refuses(() => Negotiation.offer([V1], { transport: 'isa' as 'pci' }), 'isa', 'mmio');
  });
});

describe('features of the network device', () => {
  const net = { deviceType: NET };

  it('has the bits and requirements of 5.1.3', () => {
    // [bit, what makes it valid, what does not] in numbers, so that neither the enum nor the table hides a slip.
    const rows: [number, number[], number[][]][] = [
      [7, [1], [[]]],
      [8, [1], [[]]],
      [9, [1, 7], [[], [1]]],
      [9, [1, 8], [[1]]],
      [10, [1], [[]]],
      [54, [1], [[]]],
      [55, [1], [[]]],
      [
        65,
        [1, 7, 8, 54, 55],
        [
          [1, 8, 54, 55],
          [1, 7, 54, 55],
          [1, 7, 8, 55],
          [1, 7, 8, 54],
        ],
      ],
      [66, [1, 7, 8, 54, 55, 65], [[1, 7, 8, 54, 55]]],
      [11, [0], [[]]],
      [12, [0], [[]]],
      [13, [0, 11], [[], [0]]],
      [13, [0, 12], [[0]]],
      [14, [0], [[]]],
      [56, [0], [[]]],
      [
        67,
        [0, 11, 12, 56],
        [
          [0, 12, 56],
          [0, 11, 56],
          [0, 11, 12],
        ],
      ],
      [68, [0, 11, 12, 56, 67], [[0, 11, 12, 56]]],
      [18, [17], [[]]],
      [19, [17], [[]]],
      [21, [17], [[]]],
      [22, [17], [[]]],
      [23, [17], [[]]],
      [53, [17], [[]]],
      [61, [0, 11], [[], [0]]],
      [61, [0, 12], [[0]]],
      [60, [17], [[]]],
      [52, [17], [[]]],
      [51, [17, 60], [[17], [], [57]]],
      [51, [17, 57], [[17]]],
      [64, [17, 60], [[17], [60]]],
    ];
    for (const [bit, good, bad] of rows) {
      const text = `bit ${bit} with ${good.join(', ')}`;
      expect(() => Negotiation.offer([V1, bit, ...good], net), text).not.to.throw();
      for (const set of bad) {
        refuses(() => Negotiation.offer([V1, bit, ...set], net), `(${bit}) requires`);
      }
    }
    const needy = new Set(rows.map(([bit]) => bit));
    expect([...(NET.requires?.keys() ?? [])]).to.have.members([...needy]);
    const free = [0, 1, 2, 3, 5, 15, 16, 17, 20, 50, 57, 59, 62, 63, 69, 70];
    for (const bit of free) expect(() => Negotiation.offer([V1, bit], net), `bit ${bit}`).not.to.throw();
    const known = Object.values(NetFeature).filter((bit) => typeof bit === 'number');
    expect(known).to.have.members([...needy, ...free]);
  });

  it('speaks of them by name', () => {
    refuses(
      () => Negotiation.offer([V1, N.GUEST_ECN, N.CTRL_RX], net),
      'GUEST_ECN (9) requires GUEST_TSO4 (7) or GUEST_TSO6 (8)',
      'CTRL_RX (18) requires CTRL_VQ (17)',
    );
  });

  it('leaves out what the offer cannot carry, however long the way', () => {
    const negotiation = Negotiation.receive([V1, ...featureSet((1n << 71n) - 1n)], net);
    const wanted = [V1, N.GUEST_UDP_TUNNEL_GSO_CSUM, N.GUEST_UDP_TUNNEL_GSO, N.GUEST_TSO4, N.GUEST_TSO6];
    // The two USO bits are not wanted, so neither tunnel bit can be had; without GUEST_CSUM nothing is left.
    expect([...negotiation.choose(wanted)]).to.deep.equal([V1]);
    expect([...negotiation.choose([...wanted, N.GUEST_CSUM])]).to.have.members([
      V1,
      N.GUEST_CSUM,
      N.GUEST_TSO4,
      N.GUEST_TSO6,
    ]);
  });
});
