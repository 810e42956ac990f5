import type { AnyOf, DeviceType } from './device-types.js';
import { VringError } from './errors.js';
import { Feature, type Features, featureKind, featureSet, LegacyFeature } from './features.js';

/** How driver and device reach each other, as far as it decides which features can be had. */
export type TransportKind = 'pci' | 'mmio' | 'ccw' | 'other';

/** Features that chapter 6 gives to PCI alone, and those of "Features reserved for future use" (4.2.5, 4.3.4). */
const UNSUPPORTED: Readonly<Record<TransportKind, readonly number[]>> = {
  pci: [],
  mmio: [Feature.SR_IOV, Feature.ADMIN_VQ],
  ccw: [Feature.SR_IOV, Feature.RING_RESET, Feature.ADMIN_VQ],
  other: [Feature.SR_IOV, Feature.ADMIN_VQ],
};

export interface NegotiationOptions {
  /** Defines the bits 0–23, 42 and 50–127. Without it none of them can be negotiated. */
  deviceType?: DeviceType;
  /** Default `other`: a transport of vring itself. */
  transport?: TransportKind;
  /**
   * Bits of proposals that the specification does not define yet, by name (25, 26, 31, 44–49, 128 and
   * above). Only for two sides that have agreed on them by other means.
   */
  experimental?: Readonly<Record<string, number>>;
}

/** Where a negotiation stands. `refused`: the device did not take the set, only a reset helps. */
export type NegotiationState = 'open' | 'complete' | 'refused';

/**
 * Feature negotiation of one device (virtio 1.4, 2.2 and chapter 6). Where both sides live in one
 * program they share the object: the device makes the offer, the driver accepts a part of it, and the
 * device status (status.ts) completes it when the driver sets FEATURES_OK. A driver that reads the offer
 * of a device through a transport makes its own with `Negotiation.receive`.
 *
 * Requirements between bits come from the device type. The specification states none between
 * device-independent bits.
 */
export class Negotiation {
  /** What the device offers, without bits that this side does not know. */
  readonly offered: ReadonlySet<number>;
  /** Offered bits that this side has to ignore: unknown, reserved, or not for this transport. */
  readonly ignored: ReadonlySet<number>;
  private readonly names: ReadonlyMap<number, string>;
  private readonly deviceType: DeviceType | undefined;
  private readonly transport: TransportKind;
  private accepted_: ReadonlySet<number> = new Set();
  private state_: NegotiationState = 'open';
  private refusal_: string | undefined;

  private constructor(offer: Set<number>, options: NegotiationOptions, strict: boolean) {
    this.deviceType = options.deviceType;
    this.transport = options.transport ?? 'other';
    if (!(this.transport in UNSUPPORTED)) {
      throw new VringError(
        'EINVAL',
        `transport ${String(this.transport)}: pass one of ${Object.keys(UNSUPPORTED).join(', ')}`,
      );
    }
    this.names = collectNames(options);
    this.offered = strict ? offer : new Set([...offer].filter((bit) => this.objection(bit) === undefined));
    this.ignored = new Set([...offer].filter((bit) => !this.offered.has(bit)));
    if (!strict) return;

    const problems = [...offer].flatMap((bit) => this.objection(bit) ?? []);
    problems.push(...this.unmet(offer).map((text) => `${text}: offer that too`));
    if (!offer.has(Feature.VERSION_1)) {
      problems.push(`${this.describe(Feature.VERSION_1)} is missing: a device has to offer it`);
    }
    if (problems.length > 0) throw new VringError('EINVAL', `bad offer: ${problems.join('; ')}`);
  }

  /**
   * The device's side: offers exactly `features`.
   * @throws VringError EINVAL if the specification does not let a device offer them
   */
  static offer(features: Features, options: NegotiationOptions = {}): Negotiation {
    return new Negotiation(featureSet(features), options, true);
  }

  /**
   * The driver's side of a transport: what a device offered, as read from it. Whatever this side does
   * not know goes to `ignored`; no offer makes it fail.
   */
  static receive(features: Features, options: NegotiationOptions = {}): Negotiation {
    return new Negotiation(featureSet(features), options, false);
  }

  get state(): NegotiationState {
    return this.state_;
  }

  /** What the driver has chosen so far; negotiated only when the state is `complete`. */
  get accepted(): ReadonlySet<number> {
    return this.accepted_;
  }

  /** The negotiated set; empty before negotiation is complete. */
  get negotiated(): ReadonlySet<number> {
    return this.state_ === 'complete' ? this.accepted_ : new Set();
  }

  /** Why the device refused the set, once the state is `refused`. */
  get refusal(): string | undefined {
    return this.refusal_;
  }

  /** True if `bit` was negotiated; false for every bit before negotiation is complete. */
  has(bit: number): boolean {
    return this.state_ === 'complete' && this.accepted_.has(bit);
  }

  /** Name and number of a bit, such as `EVENT_IDX (29)`. */
  describe(bit: number): string {
    return `${this.names.get(bit) ?? 'feature bit'} (${bit})`;
  }

  /** The largest part of `understood` that a driver may accept from this offer. */
  choose(understood: Features): Set<number> {
    const chosen = new Set([...featureSet(understood)].filter((bit) => this.offered.has(bit)));
    let before: number;
    do {
      before = chosen.size;
      for (const bit of [...chosen]) {
        if (this.missing(bit, chosen).length > 0) chosen.delete(bit);
      }
    } while (chosen.size < before);
    return chosen;
  }

  /** What is wrong with accepting `features`; empty if they are a valid part of the offer. */
  problems(features: Features): string[] {
    const bits = featureSet(features);
    const problems: string[] = [];
    for (const bit of bits) {
      const objection = this.objection(bit);
      if (objection !== undefined) problems.push(objection);
      else if (!this.offered.has(bit)) problems.push(`${this.describe(bit)} was not offered: leave it out`);
    }
    problems.push(...this.unmet(bits).map((text) => `${text}: accept both or neither`));
    if (!bits.has(Feature.VERSION_1)) {
      const name = this.describe(Feature.VERSION_1);
      problems.push(
        this.offered.has(Feature.VERSION_1)
          ? `${name} is missing: a driver has to accept it`
          : `${name} was not offered: a legacy device, which vring does not drive`,
      );
    }
    return problems;
  }

  /**
   * The driver's choice. May be called again until FEATURES_OK is set; the last call counts.
   * @throws VringError EINVAL if it is not a valid part of the offer, or too late; nothing changed then
   */
  accept(features: Features): void {
    const bits = featureSet(features);
    this.checkOpen();
    const problems = this.problems(bits);
    if (problems.length > 0) throw new VringError('EINVAL', `cannot accept: ${problems.join('; ')}`);
    this.accepted_ = bits;
  }

  /**
   * The choice of a driver that is not trusted, as it wrote it into the registers of a transport. It is
   * looked at when that driver sets FEATURES_OK, which then may fail.
   * @throws VringError EINVAL after FEATURES_OK
   */
  acceptUnchecked(features: Features): void {
    const bits = featureSet(features);
    this.checkOpen();
    this.accepted_ = bits;
  }

  /**
   * Ends the negotiation; called when the driver sets FEATURES_OK. `supports` is the device's own word on
   * a set that is valid. Returns whether the set is negotiated now; if not, only a reset opens the
   * negotiation again.
   */
  complete(supports?: (features: ReadonlySet<number>) => boolean): boolean {
    this.checkOpen();
    const problems = this.problems(this.accepted_);
    if (problems.length === 0 && supports !== undefined && !supports(this.accepted_)) {
      const names = [...this.accepted_].map((bit) => this.describe(bit));
      problems.push(`the device does not support ${names.join(', ')} together`);
    }
    this.refusal_ = problems.length > 0 ? problems.join('; ') : undefined;
    this.state_ = problems.length > 0 ? 'refused' : 'complete';
    return this.state_ === 'complete';
  }

  /** Forgets what was accepted. The offer stays. */
  reset(): void {
    this.accepted_ = new Set();
    this.state_ = 'open';
    this.refusal_ = undefined;
  }

  private checkOpen(): void {
    if (this.state_ !== 'open') {
      throw new VringError(
        'EINVAL',
        `the negotiation is ${this.state_}: features can be accepted only before FEATURES_OK, reset the device first`,
      );
    }
  }

  /** Why nobody may offer or accept `bit`, whatever the other bits are. */
  private objection(bit: number): string | undefined {
    if (UNSUPPORTED[this.transport].includes(bit)) {
      return `${this.describe(bit)} is not supported on transport '${this.transport}': leave it out`;
    }
    if (this.names.has(bit) && !(bit in LegacyFeature)) return undefined;
    switch (featureKind(bit)) {
      case 'legacy':
        return `${this.describe(bit)} is of the legacy interface: leave it out`;
      case 'device-type':
        return this.deviceType === undefined
          ? `${this.describe(bit)} is for a device type to define: pass deviceType, or leave it out`
          : `${this.describe(bit)} is not defined for the ${this.deviceType.name}: leave it out`;
      case 'undefined':
        return `${this.describe(bit)} is not defined by the specification: leave it out`;
      default:
        return `${this.describe(bit)} is reserved: leave it out`;
    }
  }

  /** The entries of the requirements of `bit` that `features` does not satisfy. */
  private missing(bit: number, features: ReadonlySet<number>): AnyOf[] {
    const all = this.deviceType?.requires?.get(bit) ?? [];
    return all.filter((anyOf) => !anyOf.some((needed) => features.has(needed)));
  }

  private unmet(features: ReadonlySet<number>): string[] {
    return [...features].flatMap((bit) =>
      this.missing(bit, features).map(
        (anyOf) =>
          `${this.describe(bit)} requires ${anyOf.map((needed) => this.describe(needed)).join(' or ')}`,
      ),
    );
  }
}

/** Names of all bits that can be told apart here. Refuses a bit where it cannot be defined. */
function collectNames(options: NegotiationOptions): Map<number, string> {
  const names = new Map<number, string>();
  for (const [name, bit] of Object.entries({ ...Feature, ...LegacyFeature })) {
    if (typeof bit === 'number') names.set(bit, name);
  }
  const add = (name: string, bit: number, allowed: boolean, hint: string) => {
    featureSet([bit]);
    if (!allowed || names.has(bit)) {
      const taken = names.get(bit);
      throw new VringError(
        'EINVAL',
        `${name} (${bit}) ${taken === undefined ? 'is not a bit of that kind' : `collides with ${taken}`}: ${hint}`,
      );
    }
    names.set(bit, name);
  };
  for (const [name, bit] of Object.entries(options.deviceType?.features ?? {})) {
    // An enum has its numbers as names, too.
    if (typeof bit !== 'number') continue;
    add(name, bit, featureKind(bit) === 'device-type', 'a device type has the bits 0–23, 42 and 50–127');
  }
  for (const [name, bit] of Object.entries(options.experimental ?? {})) {
    const kind = featureKind(bit);
    add(
      name,
      bit,
      kind === 'undefined' || kind === 'reserved',
      'an experiment has the bits 25, 26, 31, 44–49, 128 and above',
    );
  }
  return names;
}
