/** One of these bits is needed. */
export type AnyOf = readonly number[];

/** What a device type adds to feature negotiation. */
export interface DeviceType {
  readonly name: string;
  /** The bits that the type defines, by name; an enum will do. */
  readonly features: Readonly<Record<string, number | string>>;
  /** For a bit that needs others: all of the list, where each entry is satisfied by any of its bits. */
  readonly requires?: ReadonlyMap<number, readonly AnyOf[]>;
}

/** Feature bits of the network device (virtio 1.4, 5.1.3). */
export enum NetFeature {
  CSUM = 0,
  GUEST_CSUM = 1,
  CTRL_GUEST_OFFLOADS = 2,
  MTU = 3,
  MAC = 5,
  GUEST_TSO4 = 7,
  GUEST_TSO6 = 8,
  GUEST_ECN = 9,
  GUEST_UFO = 10,
  HOST_TSO4 = 11,
  HOST_TSO6 = 12,
  HOST_ECN = 13,
  HOST_UFO = 14,
  MRG_RXBUF = 15,
  STATUS = 16,
  CTRL_VQ = 17,
  CTRL_RX = 18,
  CTRL_VLAN = 19,
  CTRL_RX_EXTRA = 20,
  GUEST_ANNOUNCE = 21,
  MQ = 22,
  CTRL_MAC_ADDR = 23,
  DEVICE_STATS = 50,
  HASH_TUNNEL = 51,
  VQ_NOTF_COAL = 52,
  NOTF_COAL = 53,
  GUEST_USO4 = 54,
  GUEST_USO6 = 55,
  HOST_USO = 56,
  HASH_REPORT = 57,
  GUEST_HDRLEN = 59,
  RSS = 60,
  RSC_EXT = 61,
  STANDBY = 62,
  SPEED_DUPLEX = 63,
  RSS_CONTEXT = 64,
  GUEST_UDP_TUNNEL_GSO = 65,
  GUEST_UDP_TUNNEL_GSO_CSUM = 66,
  HOST_UDP_TUNNEL_GSO = 67,
  HOST_UDP_TUNNEL_GSO_CSUM = 68,
  OUT_NET_HEADER = 69,
  IPSEC = 70,
}

const N = NetFeature;

/** The network device, with its feature bit requirements (5.1.3.1). */
export const NET: DeviceType = {
  name: 'network device',
  features: NetFeature,
  requires: new Map<number, readonly AnyOf[]>([
    [N.GUEST_TSO4, [[N.GUEST_CSUM]]],
    [N.GUEST_TSO6, [[N.GUEST_CSUM]]],
    [N.GUEST_ECN, [[N.GUEST_TSO4, N.GUEST_TSO6]]],
    [N.GUEST_UFO, [[N.GUEST_CSUM]]],
    [N.GUEST_USO4, [[N.GUEST_CSUM]]],
    [N.GUEST_USO6, [[N.GUEST_CSUM]]],
    [N.GUEST_UDP_TUNNEL_GSO, [[N.GUEST_TSO4], [N.GUEST_TSO6], [N.GUEST_USO4], [N.GUEST_USO6]]],
    [N.GUEST_UDP_TUNNEL_GSO_CSUM, [[N.GUEST_UDP_TUNNEL_GSO]]],
    [N.HOST_TSO4, [[N.CSUM]]],
    [N.HOST_TSO6, [[N.CSUM]]],
    [N.HOST_ECN, [[N.HOST_TSO4, N.HOST_TSO6]]],
    [N.HOST_UFO, [[N.CSUM]]],
    [N.HOST_USO, [[N.CSUM]]],
    [N.HOST_UDP_TUNNEL_GSO, [[N.HOST_TSO4], [N.HOST_TSO6], [N.HOST_USO]]],
    [N.HOST_UDP_TUNNEL_GSO_CSUM, [[N.HOST_UDP_TUNNEL_GSO]]],
    [N.CTRL_RX, [[N.CTRL_VQ]]],
    [N.CTRL_VLAN, [[N.CTRL_VQ]]],
    [N.GUEST_ANNOUNCE, [[N.CTRL_VQ]]],
    [N.MQ, [[N.CTRL_VQ]]],
    [N.CTRL_MAC_ADDR, [[N.CTRL_VQ]]],
    [N.NOTF_COAL, [[N.CTRL_VQ]]],
    [N.RSC_EXT, [[N.HOST_TSO4, N.HOST_TSO6]]],
    [N.RSS, [[N.CTRL_VQ]]],
    [N.VQ_NOTF_COAL, [[N.CTRL_VQ]]],
    [N.HASH_TUNNEL, [[N.CTRL_VQ], [N.RSS, N.HASH_REPORT]]],
    [N.RSS_CONTEXT, [[N.CTRL_VQ], [N.RSS]]],
  ]),
};
