-- The columns that the five queries use, as in section 1.4.
CREATE TABLE customer (
  c_custkey integer PRIMARY KEY,
  c_mktsegment char(10) NOT NULL
);
CREATE TABLE part (
  p_partkey integer PRIMARY KEY,
  p_brand char(10) NOT NULL,
  p_type varchar(25) NOT NULL,
  p_size integer NOT NULL,
  p_container char(10) NOT NULL
);
CREATE TABLE orders (
  o_orderkey integer PRIMARY KEY,
  o_custkey integer NOT NULL,
  o_orderdate date NOT NULL,
  o_shippriority integer NOT NULL
);
CREATE TABLE lineitem (
  l_orderkey integer NOT NULL,
  l_partkey integer NOT NULL,
  l_linenumber integer NOT NULL,
  l_quantity decimal(15, 2) NOT NULL,
  l_extendedprice decimal(15, 2) NOT NULL,
  l_discount decimal(15, 2) NOT NULL,
  l_tax decimal(15, 2) NOT NULL,
  l_returnflag char(1) NOT NULL,
  l_linestatus char(1) NOT NULL,
  l_shipdate date NOT NULL,
  l_shipinstruct char(25) NOT NULL,
  l_shipmode char(10) NOT NULL,
  PRIMARY KEY (l_orderkey, l_linenumber)
);
