select
  100.00 * sum(case
    when p_type like 'PROMO%'
      then toFloat64(l_extendedprice * (1 - l_discount))
    else 0
  end) / sum(toFloat64(l_extendedprice * (1 - l_discount))) as promo_revenue
from
  lineitem
  all inner join (select p_partkey as l_partkey, p_type from part) using l_partkey
where
  l_shipdate >= '1995-09-01'
  and l_shipdate < '1995-10-01';
