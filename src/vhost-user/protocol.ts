// Numbers of the vhost-user protocol, version 1.

export const VERSION = 1;

/** Header: request, flags, size of the payload; 32 bits each, little-endian. */
export const HEADER_BYTES = 12;

export const FLAG_VERSION = 0x3;
export const FLAG_REPLY = 0x4;
export const FLAG_NEED_REPLY = 0x8;

/** Requests of the front-end. */
export enum Request {
  GET_FEATURES = 1,
  SET_FEATURES = 2,
  SET_OWNER = 3,
  RESET_OWNER = 4,
  SET_MEM_TABLE = 5,
  SET_VRING_NUM = 8,
  SET_VRING_ADDR = 9,
  SET_VRING_BASE = 10,
  GET_VRING_BASE = 11,
  SET_VRING_KICK = 12,
  SET_VRING_CALL = 13,
  SET_VRING_ERR = 14,
  GET_PROTOCOL_FEATURES = 15,
  SET_PROTOCOL_FEATURES = 16,
  GET_QUEUE_NUM = 17,
  SET_VRING_ENABLE = 18,
  GET_CONFIG = 24,
  SET_CONFIG = 25,
  RESET_DEVICE = 34,
  GET_MAX_MEM_SLOTS = 36,
  ADD_MEM_REG = 37,
  REM_MEM_REG = 38,
  SET_STATUS = 39,
  GET_STATUS = 40,
}

/** Bits of the protocol features. */
export enum ProtocolFeature {
  MQ = 0,
  REPLY_ACK = 3,
  CONFIG = 9,
  RESET_DEVICE = 13,
  CONFIGURE_MEM_SLOTS = 15,
  STATUS = 16,
}

/** Feature bit that says: protocol features can be negotiated. Not a feature of the virtio device. */
export const F_PROTOCOL_FEATURES = 30;

/** Kick, call and err: the low byte is the queue's index, this bit says that no descriptor comes. */
export const NO_DESCRIPTOR = 0x100n;

/** Most regions in one memory table. */
export const TABLE_REGIONS_MAX = 8;
/** Most regions at all, with CONFIGURE_MEM_SLOTS. */
export const MEMORY_SLOTS = 32;
export const REGION_BYTES = 32;
/** Largest configuration space that goes through GET_CONFIG. */
export const CONFIG_BYTES_MAX = 256;
/** Offset, size, flags; before the bytes. */
export const CONFIG_HEADER_BYTES = 12;
/** Largest payload of any message known here. */
export const PAYLOAD_MAX = 8 + TABLE_REGIONS_MAX * REGION_BYTES + CONFIG_HEADER_BYTES;

/** Bits `features` as a mask of 64 bits. */
export const bit = (n: number): bigint => 1n << BigInt(n);
